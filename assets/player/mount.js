// Where the player meets gradio: it is fed with the value, and asks again when values were lost on the way.
const player = makePlayer(element.querySelector('.sl-player'), { missing: () => trigger('missing') });
watch('value', () => player.read(props.value));
player.read(props.value);
