import { useEffect, useRef, useState } from 'preact/hooks';
import type UPlot from 'uplot';
import { short, utc } from './format.ts';
import { SERIES_COLORS } from './grid.ts';

export interface Line {
  readonly name: string;
  /** One for each time; null: nothing is known. */
  readonly values: readonly (number | null)[];
  /** Number of a series colour, from 1. */
  readonly color: number;
}

interface PlotProps {
  readonly title: string;
  /** Unix milliseconds. */
  readonly times: readonly number[];
  readonly lines: readonly Line[];
  /** `area`: stacked, so that the upper edge is the sum. */
  readonly kind?: 'line' | 'area' | 'bars';
  readonly show?: (value: number) => string;
  /** What the legend says of a line while nothing is pointed at. */
  readonly sum?: 'last' | 'total' | 'peak';
  /** Whole numbers only on the axis. */
  readonly whole?: boolean;
  /** The axis begins near the least value instead of at 0: for what changes little. */
  readonly isFitted?: boolean;
}

const HEIGHT = 186;
const AXIS_WIDTH = 52;
const WIDE_AXIS = 78;
const MINUTE_S = 60;
const WHOLE_STEPS = Array.from({ length: 16 }, (_, power) => [1, 2, 5].map((step) => step * 10 ** power)).flat();

/** Custom properties are resolved by the browser only where they are used as a colour. */
function readColors(place: HTMLElement): (name: string) => string {
  const probe = document.createElement('span');
  place.append(probe);
  const found = new Map<string, string>();
  for (const name of [
    'soft',
    'line',
    'panel',
    ...Array.from({ length: SERIES_COLORS }, (_, at) => `series-${at + 1}`),
  ]) {
    probe.style.color = `var(--${name})`;
    found.set(name, getComputedStyle(probe).color);
  }
  probe.remove();
  return (name) => found.get(name) ?? 'gray';
}

/** Sums from the last line up, so that each line lies on those after it. */
function stacked(lines: readonly Line[]): (number | null)[][] {
  const sums: (number | null)[][] = lines.map(({ values }) => [...values]);
  for (let line = sums.length - 2; line >= 0; line -= 1) {
    const own = sums[line] as (number | null)[];
    for (const [at, below] of (sums[line + 1] as (number | null)[]).entries())
      if (below !== null) own[at] = (own[at] ?? 0) + below;
  }
  return sums;
}

const legendValue = ({ values }: Line, at: number | null, sum: PlotProps['sum']): number | null => {
  if (at !== null) return values[at] ?? null;
  const known = values.filter((value) => value !== null);
  if (known.length === 0) return null;
  if (sum === 'total') return known.reduce((all, value) => all + value, 0);
  return sum === 'peak' ? Math.max(...known) : (known.at(-1) as number);
};

const SPARK = { width: 120, height: 26 } as const;

/** A small line without axes; the number beside it says the newest value. Gaps are where nothing is known. */
export function Spark({ values }: { values: readonly (number | null)[] }) {
  const known = values.filter((value) => value !== null);
  if (known.length < 2) return <svg class="spark" viewBox={`0 0 ${SPARK.width} ${SPARK.height}`} aria-hidden="true" />;
  const most = Math.max(...known) || 1;
  const step = SPARK.width / Math.max(1, values.length - 1);
  let isDown = false;
  const path = values
    .map((value, at) => {
      if (value === null) {
        isDown = false;
        return '';
      }
      const mark = isDown ? 'L' : 'M';
      isDown = true;
      return `${mark}${(at * step).toFixed(1)} ${(SPARK.height - 2 - (value / most) * (SPARK.height - 4)).toFixed(1)}`;
    })
    .join('');
  return (
    <svg class="spark" viewBox={`0 0 ${SPARK.width} ${SPARK.height}`} preserveAspectRatio="none" aria-hidden="true">
      <path d={path} />
    </svg>
  );
}

/** A plot over time, with a legend that has its numbers as text. The library is loaded with the first plot. */
export function Plot({
  title,
  times,
  lines,
  kind = 'line',
  show = short,
  sum = 'last',
  whole = false,
  isFitted = false,
}: PlotProps) {
  const place = useRef<HTMLDivElement>(null);
  const [pointed, setPointed] = useState<number | null>(null);
  const [, repaint] = useState(0);
  const isEmpty = !lines.some(({ values }) => values.some((value) => value !== null));
  const latest = useRef({ times, lines, show });
  latest.current = { times, lines, show };
  const shape = `${kind} ${lines.map(({ name, color }) => `${name}${color}`).join()} ${isEmpty}`;
  const plot = useRef<UPlot | null>(null);
  const themes = useThemeCount();

  const dataOf = (): UPlot.AlignedData => {
    const { times: now, lines: all } = latest.current;
    const values = kind === 'area' ? stacked(all) : all.map((line) => [...line.values]);
    return [now.map((at) => at / 1_000), ...values] as UPlot.AlignedData;
  };

  useEffect(() => {
    const target = place.current;
    if (target === null || isEmpty) return;
    let isOver = false;
    let resized: ResizeObserver | null = null;
    void import('uplot').then(({ default: Library }) => {
      if (isOver) return;
      const width = target.clientWidth;
      const options = optionsOf(Library, { kind, lines: latest.current.lines, whole, isFitted, width });
      // With as many digits as the steps of a fitted axis have.
      options.axes![1]!.values = (_plot, values, _axis, _space, step) =>
        values.map((value) => (isFitted ? inSteps(value, step) : latest.current.show(value)));
      options.hooks = { setCursor: [({ cursor }) => setPointed(cursor.idx ?? null)] };
      const made = new Library(
        optionsWithColors(options, kind, latest.current.lines, readColors(target)),
        dataOf(),
        target,
      );
      plot.current = made;
      resized = new ResizeObserver(() => {
        if (target.clientWidth !== made.width) made.setSize({ width: target.clientWidth, height: HEIGHT });
      });
      resized.observe(target);
      repaint((n) => n + 1);
    });
    return () => {
      isOver = true;
      resized?.disconnect();
      plot.current?.destroy();
      plot.current = null;
    };
  }, [shape, themes]);
  useEffect(() => plot.current?.setData(dataOf()), [times, lines]);

  const at = pointed !== null && pointed < times.length ? pointed : null;
  const said = lines.map((line) => {
    const value = legendValue(line, at, sum);
    return { ...line, text: value === null ? '–' : show(value) };
  });
  return (
    <figure class="plot" aria-label={title}>
      {isEmpty ? (
        <p class="plot-empty soft">Nothing was measured in this time</p>
      ) : (
        <div ref={place} class="canvas" aria-hidden="true" />
      )}
      <figcaption>
        <ul class="legend">
          {said.map(({ name, color, text }) => (
            <li key={name}>
              <span class={`swatch series-${color}`} />
              {name} <b>{text}</b>
            </li>
          ))}
        </ul>
        <span class="soft small moment">{at === null ? '' : `${utc(times[at] as number).slice(0, 16)} UTC`}</span>
      </figcaption>
    </figure>
  );
}

interface OptionParts {
  readonly kind: 'line' | 'area' | 'bars';
  readonly lines: readonly Line[];
  readonly whole: boolean;
  readonly isFitted: boolean;
  readonly width: number;
}

const inSteps = (value: number, step: number): string =>
  value.toLocaleString('en', { maximumFractionDigits: Math.max(0, Math.ceil(-Math.log10(step))) });

/** A tenth more on both sides, and never below 0 for what is not. */
function fitted(least: number, most: number): [number, number] {
  const edge = (most - least || Math.abs(most) || 1) / 10;
  return [least >= 0 ? Math.max(0, least - edge) : least - edge, most + edge];
}

function optionsOf(Library: typeof UPlot, { kind, lines, whole, isFitted, width }: OptionParts): UPlot.Options {
  const bars = kind === 'bars' ? { paths: Library.paths.bars!({ size: [0.7, 48] }) } : {};
  return {
    width,
    height: HEIGHT,
    // The last time of the axis needs half of its width.
    padding: [8, 18, 0, 0],
    legend: { show: false },
    cursor: { y: false, points: { show: kind !== 'bars' } },
    tzDate: (unixS) => Library.tzDate(new Date(unixS * 1_000), 'Etc/UTC'),
    scales: {
      x: kind === 'bars' ? { range: (_plot, first, last) => [first - 43_200, last + 43_200] } : {},
      y: {
        range: (_plot, least, most) =>
          isFitted
            ? fitted(least ?? 0, most ?? 0)
            : [
                Math.min(0, least ?? 0),
                whole ? Math.max(4, (most ?? 1) * 1.08) : (most ?? 0) === 0 ? 1 : (most as number) * 1.08,
              ],
      },
    },
    // Each area ends at the edge of the next one: laid over each other, their colours would mix.
    ...(kind === 'area'
      ? { bands: lines.slice(1).map((_, at) => ({ series: [at + 1, at + 2] as [number, number] })) }
      : {}),
    series: [{}, ...lines.map(({ name }) => ({ label: name, ...bars, points: { show: isSingle, size: 6 } }))],
    axes: [
      // Below the first number of the other axis.
      { space: 64, size: 36, gap: 12, values: timeTexts },
      { size: isFitted ? WIDE_AXIS : AXIS_WIDTH, ...(whole ? { incrs: WHOLE_STEPS } : {}) },
    ],
  };
}

/** A line through one point would not be seen. */
const isSingle = ({ data }: UPlot, series: number): boolean =>
  (data[series] ?? []).filter((value) => value !== null && value !== undefined).length === 1;

function optionsWithColors(
  options: UPlot.Options,
  kind: OptionParts['kind'],
  lines: readonly Line[],
  color: (name: string) => string,
): UPlot.Options {
  const axis = {
    stroke: color('soft'),
    font: '11px system-ui, sans-serif',
    grid: { stroke: color('line'), width: 1 },
    ticks: { show: false },
  };
  return {
    ...options,
    axes: (options.axes ?? []).map((one, at) => ({ ...one, ...axis, ...(at === 0 ? { grid: { show: false } } : {}) })),
    series: options.series.map((one, at) => {
      const line = lines[at - 1];
      if (line === undefined) return one;
      const ink = color(`series-${line.color}`);
      const fill = kind === 'line' ? {} : { fill: kind === 'bars' ? ink : withAlpha(ink, 0.4) };
      return { ...one, stroke: ink, width: kind === 'bars' ? 0 : 1.75, ...fill };
    }),
  };
}

const DAY_S = 86_400;

/** Hours and minutes, with seconds where the steps are shorter; the day where a new one begins. */
function timeTexts(_plot: UPlot, splits: number[], _axis: number, _space: number, stepS: number): string[] {
  return splits.map((at) => {
    const text = new Date(at * 1_000).toISOString();
    if (stepS >= DAY_S || at % DAY_S === 0) return text.slice(5, 10);
    return text.slice(11, stepS < MINUTE_S ? 19 : 16);
  });
}

const withAlpha = (color: string, alpha: number): string => color.replace(/^rgb\((.*)\)$/, `rgba($1, ${alpha})`);

/** Counts changes of the theme: a canvas does not follow them. */
function useThemeCount(): number {
  const [count, setCount] = useState(0);
  useEffect(() => {
    const changed = () => setCount((n) => n + 1);
    const dark = matchMedia('(prefers-color-scheme: dark)');
    dark.addEventListener('change', changed);
    addEventListener('themechange', changed);
    return () => {
      dark.removeEventListener('change', changed);
      removeEventListener('themechange', changed);
    };
  }, []);
  return count;
}
