// What the ``mount`` of a module gets: from gradio, or from offline/page.js, where nothing answers a trigger.
export interface Part {
  element: HTMLElement;
  props: { value?: string };
  watch: (name: string, callback: () => void) => void;
  trigger: (name: string, detail?: object) => void;
  isOffline?: boolean;
}
