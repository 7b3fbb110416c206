// Says whether an address leads to the visitor's own machine, so that others can't open it. ``hostname``: as in a URL.
export const isOwnMachine = hostname => /^(localhost|127\..*|0\.0\.0\.0|\[::1?\])$/.test(hostname);
