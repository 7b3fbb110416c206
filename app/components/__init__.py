"""Parts of the page that draw themselves in the browser; their JavaScript and CSS live in assets/."""
