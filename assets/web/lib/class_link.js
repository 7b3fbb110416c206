// Whether the page was opened by a link that hides controls. Such a link is for a class, so it shows nothing that is for teachers.
export const isClassLink = () => ['hide', 'only'].some(name => new URLSearchParams(location.search).has(name));
