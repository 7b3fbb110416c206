// Shows a link as a QR code as large as the screen, for the phones of a class. Escape or a press closes it.
import { make, makeButton } from './dom.js';
import { qrCode } from './qr_code.js';

const MARGIN = 4; // modules of white that a camera needs around a code

// ``rows``: true for dark. It is black on white in the dark theme, too, because not every camera reads the reverse.
function picture(rows) {
  const SVG = 'http://www.w3.org/2000/svg',
    size = rows.length + 2 * MARGIN,
    svg = document.createElementNS(SVG, 'svg'),
    path = document.createElementNS(SVG, 'path');
  const squares = rows.flatMap((row, y) => row.map((isDark, x) => isDark && `M${x + MARGIN} ${y + MARGIN}h1v1h-1z`));
  path.setAttribute('d', squares.filter(Boolean).join(''));
  svg.setAttribute('viewBox', `0 0 ${size} ${size}`);
  svg.setAttribute('role', 'img');
  svg.setAttribute('aria-label', 'QR code of the link');
  svg.append(path);
  return svg;
}

// Returns whether the link fits in a code. ``place``: where the dialog is added, because the page has its colours;
// ``words``: shown instead of a code, where no phone could open the link.
export function showCode(place, link, words = '') {
  const rows = words ? [] : qrCode(link);
  if (!rows) return false;
  const content = words ? [make('p', '', words)] : [picture(rows), make('p', '', link)],
    dialog = make('dialog', 'sl-code', [...content, makeButton('Close', () => {})], {
      'aria-label': 'The link for phones',
    });
  dialog.addEventListener('click', () => dialog.close());
  dialog.addEventListener('close', () => dialog.remove());
  place.append(dialog);
  dialog.showModal();
  return true;
}
