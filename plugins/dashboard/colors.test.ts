/** The colours of the lines of a plot, in both themes: each can be seen, and told from the others. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { colorsOf, SERIES_COLORS } from './app/grid.ts';

const style = readFileSync(new URL('./app/style.css', import.meta.url), 'utf8');
const THEMES = ['light', 'dark'] as const;

/** WCAG: what is no text. */
const MIN_CONTRAST = 3;
/** In hundredths of the lightness of white, in OKLab. Side by side, colours of half this distance are hard to tell apart. */
const MIN_DISTANCE = 14;

type Color = readonly [red: number, green: number, blue: number];

/** A variable of the style in one theme, in linear light. */
function colorOf(name: string, theme: (typeof THEMES)[number]): Color {
  const found = new RegExp(`--${name}: light-dark\\((#[0-9a-f]{6}), (#[0-9a-f]{6})\\);`).exec(style);
  const text = found?.[theme === 'light' ? 1 : 2];
  assert.ok(text !== undefined, `${name} has a colour in each theme`);
  const part = (at: number) => {
    const value = Number.parseInt(text.slice(at, at + 2), 16) / 255;
    return value <= 0.040_45 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  };
  return [part(1), part(3), part(5)];
}

const luminance = ([red, green, blue]: Color) => 0.2126 * red + 0.7152 * green + 0.0722 * blue;

function contrast(one: Color, other: Color): number {
  const [dark = 0, light = 0] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (light + 0.05) / (dark + 0.05);
}

function oklab([red, green, blue]: Color): Color {
  const long = Math.cbrt(0.412_221_470_8 * red + 0.536_332_536_3 * green + 0.051_445_992_9 * blue);
  const medium = Math.cbrt(0.211_903_498_2 * red + 0.680_699_545_1 * green + 0.107_396_956_6 * blue);
  const short = Math.cbrt(0.088_302_461_9 * red + 0.281_718_837_6 * green + 0.629_978_700_5 * blue);
  return [
    0.210_454_255_3 * long + 0.793_617_785 * medium - 0.004_072_046_8 * short,
    1.977_998_495_1 * long - 2.428_592_205 * medium + 0.450_593_709_9 * short,
    0.025_904_037_1 * long + 0.782_771_766_2 * medium - 0.808_675_766 * short,
  ];
}

const distance = (one: Color, other: Color): number => {
  const [a, b] = [oklab(one), oklab(other)];
  return 100 * Math.hypot(a[0] - b[0], a[1] - b[1], a[2] - b[2]);
};

const numbers = Array.from({ length: SERIES_COLORS }, (_, at) => at + 1);

test('each line is seen on its panel and told from every other, in both themes', () => {
  for (const theme of THEMES) {
    const panel = colorOf('panel', theme);
    const lines = numbers.map((number) => colorOf(`series-${number}`, theme));
    for (const [at, line] of lines.entries()) {
      const seen = contrast(line, panel);
      assert.ok(seen >= MIN_CONTRAST, `series-${at + 1} in the ${theme} theme: contrast ${seen.toFixed(2)}`);
      for (const [other, before] of lines.slice(0, at).entries()) {
        const apart = distance(line, before);
        assert.ok(
          apart >= MIN_DISTANCE,
          `series-${other + 1} and ${at + 1} in the ${theme} theme: ${apart.toFixed(1)}`,
        );
      }
    }
  }
  for (const number of numbers)
    assert.match(style, new RegExp(`\\.swatch\\.series-${number} \\{\\s+background: var\\(--series-${number}\\);`));
});

test('labels have their own colours, others the first free ones, and none twice while there are enough', () => {
  const own = { done: 3, retry: 1, failed: 5, held: 4, discarded: 6 };
  const colors = colorsOf(['new', 'done', 'constructor', 'discarded'], own);
  assert.deepEqual([...colors.values()], [2, 3, 7, 6]);
  const many = colorsOf(Array.from({ length: SERIES_COLORS }, (_, at) => `upstream ${at}`));
  assert.deepEqual([...many.values()], numbers);
  const mixed = colorsOf([...Object.keys(own), ...'abcdefg'], own);
  assert.equal(new Set(mixed.values()).size, SERIES_COLORS);
  assert.equal(colorsOf(Array.from({ length: 30 }, (_, at) => `${at}`)).size, 30);
});
