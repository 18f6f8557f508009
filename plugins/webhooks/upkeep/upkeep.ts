import { sql } from 'kysely';
import type { Log } from '../../../src/ports/log.ts';
import type { Roles } from '../../../src/ports/role.ts';
import { type AutoDisableParts, disableFailing } from '../delivery/auto-disable.ts';
import type { Depth } from '../match/depth.ts';
import type { GapAlerts } from '../operational/gap-alerts.ts';
import type { StallAlerts } from '../operational/stall-alerts.ts';
import type { Replays } from '../replay/replays.ts';
import { MINUTE_MS } from '../store/health.ts';
import { hooksByNumber } from '../store/hooks.ts';
import type { Db } from '../store/tables.ts';
import { type HeldParts, lookAfterHeld } from './held.ts';
import { endPauses, type PauseParts } from './pauses.ts';
import { prune } from './prune.ts';

export interface UpkeepParts extends HeldParts, PauseParts {
  readonly depth: Depth;
  readonly log: Log;
  readonly autoDisable: AutoDisableParts;
  readonly replays: Pick<Replays, 'finish'> | null;
  readonly gapAlerts: GapAlerts | null;
  readonly stallAlerts: StallAlerts;
}

export interface Upkeep {
  start(roles: Roles): void;
  stop(): void;
}

const COUNT_MS = 10_000;
const RECOUNT_MS = 300_000;
const PRUNE_MS = 600_000;
const PAUSES_MS = 5_000;
const STALLS_MS = 5_000;

/** Counts what waits, removes what is old, and looks after what only time changes. */
export function createUpkeep(parts: UpkeepParts): Upkeep {
  const { clock, log, config, queue, depth } = parts;
  let stopped = false;
  const cancels = new Set<() => void>();

  const repeat = (everyMs: number, what: string, work: () => Promise<void>): void => {
    const cancel = clock.timeout(everyMs, async () => {
      cancels.delete(cancel);
      await work().catch((error: unknown) => log.warn({ err: error }, `${what} failed`));
      if (!stopped) repeat(everyMs, what, work);
    });
    cancels.add(cancel);
  };
  let countedAt = Number.NEGATIVE_INFINITY;
  /** Between counts the depth only grows, so far from the bound an old count is good enough: counting reads the whole outbox. */
  const count = async (): Promise<void> => {
    const now = clock.monotonic();
    if (depth.value() < config.outbox.maxRows / 2 && now - countedAt < RECOUNT_MS) return;
    countedAt = now;
    depth.counted(await queue.depth(config.outbox.maxRows));
  };
  const everyMinute = async (): Promise<void> => {
    await lookAfterHeld(parts);
    await checkRates(parts);
    await parts.replays?.finish();
    await parts.gapAlerts?.look();
  };

  return {
    start(roles) {
      // Whoever follows the chain has to know how much waits, and whoever delivers clears up.
      if (roles.has('indexer')) repeat(COUNT_MS, 'counting deliveries', count);
      if (!roles.has('deliverer')) return;
      repeat(PRUNE_MS, 'pruning deliveries', () => prune({ ...parts, isStopped: () => stopped }));
      repeat(PAUSES_MS, 'looking after paused projects', () => endPauses(parts));
      repeat(STALLS_MS, 'looking after standstills', parts.stallAlerts.look);
      repeat(MINUTE_MS, 'looking after held deliveries and failing webhooks', everyMinute);
    },
    stop() {
      stopped = true;
      for (const cancel of cancels) cancel();
    },
  };
}

/** Time alone can make a webhook one that fails: when its last success is old enough. */
async function checkRates({ store, clock, autoDisable }: UpkeepParts): Promise<void> {
  const { rules } = autoDisable;
  if (!rules.enabled) return;
  const since = Math.floor(clock.now() / MINUTE_MS) - rules.windowMinutes + 1;
  const failing = await (store.read as Db)
    .selectFrom('webhook_health')
    .select('number')
    .where('minute', '>=', since)
    .groupBy('number')
    .having(sql<boolean>`sum(failed) >= ${rules.minFinished * rules.failureRate}`)
    .execute();
  const hooks = await hooksByNumber(
    store.read as Db,
    failing.map(({ number }) => number),
  );
  for (const hook of hooks) {
    if (hook.active) await store.write((tx) => disableFailing(autoDisable, tx, [{ hook, gone: false }]));
  }
}
