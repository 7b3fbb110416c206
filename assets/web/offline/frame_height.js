// Tells the page around a frame how tall this page is, with the message {type: 'speclens-height', height}, in pixels.
// It is sent at first and after every change, to any page, because it says nothing of the reader.

export const isFramed = () => window.parent !== window;

export function reportHeight() {
  if (!isFramed()) return;
  const { body } = document;
  body.classList.add('sl-framed'); // parts as tall as the window would grow with the frame for ever
  const send = () => {
    const height = Math.ceil(body.getBoundingClientRect().height);
    window.parent.postMessage({ type: 'speclens-height', height }, '*');
  };
  new ResizeObserver(send).observe(body);
}
