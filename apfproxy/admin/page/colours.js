// Colours that are not the style sheet's: those of plots and of the heat map.
// Neighbours differ in lightness, too, for those who see few colours.

const dark = matchMedia("(prefers-color-scheme: dark)");
const isDark = () => dark.matches;

const LINES = {
  light: ["#0067a8", "#c65300", "#00805d", "#a3498f", "#7d6400", "#3d93c4", "#3f4854", "#a11d4a"],
  dark: ["#62b6ee", "#f29a4a", "#35c79c", "#e59ac6", "#e6d35a", "#9dbcff", "#c5ced9", "#ff8f9c"],
};

/** Few to many: from the panel's own colour to the one farthest from it. */
const HEAT = {
  light: ["#dbe7f0", "#a3c4dd", "#5f9ac4", "#2f6aa3", "#274786", "#2b1d54"],
  dark: ["#1d3a5c", "#2a5c86", "#4d7f92", "#8a9c78", "#cdb653", "#ffe76b"],
};

export const HEAT_STEPS = 64;

/** How the line of a level is drawn: colours first, then the same dashed. */
export function line(number) {
  const colours = LINES[isDark() ? "dark" : "light"];
  const round = Math.floor(number / colours.length);
  return { colour: colours[number % colours.length], dash: [[], [6, 4], [2, 3]][round % 3] };
}

const style = getComputedStyle(document.documentElement);

/** The value of a colour of the style sheet, as it is now; asking may cost a layout. */
export const styled = (name) => style.getPropertyValue(`--${name}`).trim();

/** `HEAT_STEPS` colours from the least to the most. */
export function heatColours() {
  const stops = HEAT[isDark() ? "dark" : "light"].map(channels);
  return Array.from({ length: HEAT_STEPS }, (_, step) => {
    const place = (step / (HEAT_STEPS - 1)) * (stops.length - 1);
    const below = Math.min(Math.floor(place), stops.length - 2);
    const mixed = stops[below].map((low, channel) =>
      Math.round(low + (stops[below + 1][channel] - low) * (place - below)));
    return `rgb(${mixed.join(" ")})`;
  });
}

const channels = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
