/** What comparing a tenth of the reads costs the others: their p99 and the CPU time of a read, with the plugin shadow and without it. */
import assert from 'node:assert/strict';
import type { ShadowReport } from '../../../src/ports/shadow-report.ts';
import { type BenchServer, startBenchServer } from '../http.ts';
import { ratioOf } from '../paired.ts';
import type { Row, RowResult, RunOptions } from '../row.ts';
import { accountText, PROXY_KEY, READ, SHADOW_SHARE } from '../samples/proxy-answers.ts';
import { siblingModule } from '../sibling.ts';
import { percentile, steadyLoad } from '../steady-load.ts';

const MAX_P99 = 1.05;
const MAX_CPU = 1.15;
const SIZES = {
  full: { windows: 20, seconds: 20, perSecond: 250 },
  quick: { windows: 10, seconds: 8, perSecond: 250 },
  smoke: { windows: 1, seconds: 1, perSecond: 200 },
} as const;
const CONNECTIONS = 32;
/** Of the chosen reads, at least: one may be skipped because the machine stood still. */
const MIN_COMPARED = 0.9;

interface Window {
  readonly p99: number;
  /** Of a read, us; NaN where the system does not tell. */
  readonly cpuUs: number;
}

async function run({ size, seed, say }: RunOptions): Promise<RowResult[]> {
  const { windows, seconds, perSecond } = SIZES[size];
  const module = siblingModule(import.meta.url, '../samples/proxy-server.ts');
  const upstream = await startBenchServer(module, ['upstream']);
  const reference = await startBenchServer(module, ['reference']);
  const plain = await startBenchServer(module, ['daemon', upstream.url]);
  const shadow = await startBenchServer(module, ['shadow', upstream.url, reference.url]);
  const measure = async (server: BenchServer): Promise<Window> => {
    const before = server.cpuUs();
    const url = `${server.url}/?api-key=${PROXY_KEY}`;
    const { latenciesMs } = await steadyLoad({ url, body: READ, perSecond, seconds, connections: CONNECTIONS });
    const after = server.cpuUs();
    const spent = before === null || after === null ? Number.NaN : after - before;
    return { p99: percentile(latenciesMs, 0.99), cpuUs: spent / latenciesMs.length };
  };
  try {
    for (const server of [plain, shadow]) {
      const response = await fetch(`${server.url}/?api-key=${PROXY_KEY}`, { method: 'POST', body: READ });
      assert.equal(await response.text(), accountText());
    }
    const warmUps = size === 'smoke' ? 0 : 3;
    for (let i = 0; i < warmUps; i += 1) await Promise.all([measure(shadow), measure(plain)]);
    const first = await reportOf(shadow);
    const ours: Window[] = [];
    const baseline: Window[] = [];
    for (let i = 0; i < windows; i += 1) {
      say(`window ${i + 1} of ${windows}`);
      // Both at once: what else happens on the machine hits both alike.
      const [mine, other] = await Promise.all([measure(shadow), measure(plain)]);
      ours.push(mine);
      baseline.push(other);
    }
    const { compared, different, unanswered } = await reportOf(shadow);
    const [asked, made] = [windows * seconds * perSecond, compared - first.compared];
    assert.equal(different, 0, 'the reference answers the same');
    if (size !== 'smoke') assert.ok(made >= MIN_COMPARED * SHADOW_SHARE * asked, `${made} of ${asked} were compared`);
    const notes = [
      `${made} of ${asked} reads were compared, ${unanswered} times the reference did not answer`,
      'both daemons are asked at once, by one load; they, upstream and reference share the cores; log level info',
    ];
    const rowOf = (name: 'p99' | 'cpu', title: string, unit: string, most: number): RowResult => {
      const figure = (window: Window) => (name === 'p99' ? window.p99 : window.cpuUs);
      const ratio = ratioOf(ours.map(figure), baseline.map(figure));
      return {
        row: `shadow/${name}`,
        name: `${title} while a tenth of the reads is compared; baseline: without the plugin`,
        unit,
        ours: ours.map(figure),
        baseline: baseline.map(figure),
        ratio,
        goal: `<= ${most}x`,
        verdict: size === 'smoke' ? 'not assessed' : ratio.median <= most ? 'met' : 'missed',
        sizes: { windows, seconds, perSecond, share: SHADOW_SHARE, connections: CONNECTIONS },
        seed,
        notes,
      };
    };
    return [
      rowOf('p99', 'p99 of reads through the daemon', 'ms', MAX_P99),
      rowOf('cpu', 'CPU time of a read through the daemon', 'us', MAX_CPU),
    ];
  } finally {
    for (const server of [shadow, plain, reference, upstream]) server.stop();
  }
}

async function reportOf({ told: { adminPort } }: BenchServer): Promise<ShadowReport> {
  const response = await fetch(`http://127.0.0.1:${adminPort}/v0/admin/shadow`);
  return (await response.json()) as ShadowReport;
}

export const row: Row = { id: 'shadow', name: 'comparing a share of the reads', run };
