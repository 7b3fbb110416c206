// Closes the inspector's sheet, which covers a phone's lower half, once the rounds are scrolled out of view.

export function closeSheetBelowStage() {
  const find = selector => document.querySelector(`#stage ${selector}`);
  window.addEventListener(
    'scroll',
    () => {
      const sheet = find('.sl-inspector[data-open="locked"]');
      if (!sheet || getComputedStyle(sheet).position !== 'fixed') return;
      if (find('.sl-rows').getBoundingClientRect().bottom < 0) find('.sl-close').click();
    },
    { passive: true },
  );
}
