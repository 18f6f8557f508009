import { setTimeout as sleep } from 'node:timers/promises';
import { startReceiver } from '../helpers/receiver.ts';
import { startWorkBed } from '../helpers/work-harness.ts';
import { createWebhook, type Load, startLoad } from './load.ts';
import { type Sample, type Sight, takeSample } from './samples.ts';
import { type Trend, trendsOf } from './verdict.ts';

export interface SoakOptions {
  readonly seconds: number;
  readonly sampleSeconds: number;
  /** Default SQLite. */
  readonly store?: string;
  readonly seed?: number;
  /** Clients that call without a pause. Default: 1. */
  readonly clients?: number;
  /** Between two payments, about. Default: 150. */
  readonly payEveryMs?: number;
  readonly onSample?: (sample: Sample) => void;
}

export interface SoakReport {
  readonly samples: readonly Sample[];
  readonly trends: readonly Trend[];
  readonly counts: Load['counts'];
  readonly delivered: number;
  /** Exit code of the daemon after SIGTERM at the end. */
  readonly exitCode: number | null;
  readonly isFlat: boolean;
}

/** Runs a built daemon under traffic and looks at it from outside. */
export async function runSoak(options: SoakOptions): Promise<SoakReport> {
  const { seconds, sampleSeconds, store, seed = 1, clients = 1, payEveryMs = 150 } = options;
  const bed = await startWorkBed({
    ...(store === undefined ? {} : { store }),
    wallets: 6,
    payEveryMs,
    receiverMs: 20,
    config: {
      log: { level: 'warn', format: 'json' },
      webhooks: { allowCidrs: ['127.0.0.0/8'], defaultPreset: 'compat', autoDisable: { enabled: false } },
      // Full long before the second quarter: what grows later is no cache.
      wallet: { transactions: { cacheBytes: 4_194_304 } },
    },
  });
  const slow = await startReceiver();
  slow.setFallback({ kind: 'answer', status: 200, delayMs: 600 });
  const failing = await startReceiver();
  failing.setFallback({ kind: 'answer', status: 500 });
  try {
    const daemon = bed.start();
    const { api, admin } = await daemon.ready();
    // Nobody listens on port 1.
    const receivers = [bed.receiver.url, slow.url, failing.url, 'http://127.0.0.1:1/'];
    const target = { daemon, api, payments: bed.payments, receivers };
    for (const [index] of bed.payments.addresses.entries())
      await createWebhook(target, index % receivers.length, index);
    const load = startLoad(target, seed, clients);
    const sight = { pid: daemon.child.pid as number, admin, dataDir: bed.dataDir, callMs: load.callMs };
    const samples = await sampleFor(sight, seconds, sampleSeconds, options.onSample);
    await load.stop();
    await daemon.kill('SIGTERM');
    const trends = trendsOf(samples);
    return {
      samples,
      trends,
      counts: load.counts,
      delivered: bed.receiver.received.length,
      exitCode: daemon.child.exitCode,
      isFlat: trends.every((trend) => trend.isFlat),
    };
  } finally {
    await bed.stop();
    await slow.close();
    await failing.close();
  }
}

async function sampleFor(
  sight: Sight,
  seconds: number,
  sampleSeconds: number,
  onSample: SoakOptions['onSample'],
): Promise<Sample[]> {
  const samples: Sample[] = [];
  const startedMs = performance.now();
  const elapsed = () => (performance.now() - startedMs) / 1_000;
  while (elapsed() < seconds) {
    await sleep(sampleSeconds * 1_000);
    const sample = await takeSample(sight, Math.round(elapsed()));
    samples.push(sample);
    onSample?.(sample);
  }
  return samples;
}
