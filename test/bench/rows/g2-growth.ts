/** How durable ingest grows with the addresses of webhooks and with wallets; the quarters of G2 have how it grows with rows. */
import type { Row, RowResult, RunOptions } from '../row.ts';
import { ingest, startIngestWorld, type WorldSizes } from '../samples/ingest-world.ts';

type Point = Pick<WorldSizes, 'webhooks' | 'wallets'>;

const shared = { transactions: 1_500, templates: 4, addressesEach: 1_000, hits: 20 };
const SIZES: Readonly<
  Record<RunOptions['size'], Omit<WorldSizes, keyof Point> & { readonly points: readonly Point[] }>
> = {
  full: {
    ...shared,
    blocks: 400,
    points: [
      { webhooks: 10, wallets: 1_000 },
      { webhooks: 100, wallets: 1_000 },
      { webhooks: 1_000, wallets: 1_000 },
      { webhooks: 3_000, wallets: 1_000 },
      { webhooks: 100, wallets: 10_000 },
      { webhooks: 100, wallets: 30_000 },
    ],
  },
  quick: {
    ...shared,
    blocks: 120,
    points: [
      { webhooks: 10, wallets: 1_000 },
      { webhooks: 200, wallets: 1_000 },
      { webhooks: 10, wallets: 5_000 },
    ],
  },
  smoke: {
    blocks: 8,
    transactions: 60,
    templates: 2,
    addressesEach: 20,
    hits: 4,
    points: [
      { webhooks: 2, wallets: 20 },
      { webhooks: 4, wallets: 40 },
    ],
  },
};

async function run({ size, seed, say }: RunOptions): Promise<RowResult[]> {
  const { points, ...sizes } = SIZES[size];
  const ours: number[] = [];
  const notes: string[] = [];
  for (const point of points) {
    const world = await startIngestWorld({ sizes: { ...sizes, ...point }, seed });
    try {
      const { quarters, cpuMs, rssMib } = await ingest(world.bed, { ...sizes, ...point }, () => undefined);
      // Harmonic: all blocks by all the time.
      const rate = quarters.length / quarters.reduce((sum, quarter) => sum + 1 / quarter, 0);
      const addresses = (point.webhooks * sizes.addressesEach).toLocaleString('en');
      const line = `${addresses} addresses, ${point.wallets.toLocaleString('en')} wallets: ${rate.toFixed(1)} blocks/s, ${cpuMs} ms of CPU per block, RSS ${rssMib.toFixed(0)} MiB`;
      say(`G2-growth: ${line}`);
      ours.push(rate);
      notes.push(line);
    } finally {
      world.close();
    }
  }
  return [
    {
      row: 'G2-growth',
      name: 'durable ingest by addresses and wallets',
      unit: 'blocks/s, one figure per point',
      ours,
      baseline: [],
      ratio: null,
      goal: 'a report',
      verdict: 'not assessed',
      sizes: { ...sizes },
      seed,
      notes: [...notes, 'as in G2, on SQLite'],
    },
  ];
}

export const row: Row = { id: 'G2-growth', name: 'durable ingest by addresses and wallets', run };
