import { sql } from 'kysely';
import { type Clock, type Log, messageOf, type Roles, type Store } from '../../../src/kernel/plugin.ts';
import { decode32 } from '../../../src/lib/base58.ts';
import type { WalletConfig } from '../config.ts';
import type { Db } from '../store/tables.ts';
import { readWallet, registerWallet, unfollowWallets } from '../store/wallets.ts';
import type { Schedule } from './schedule.ts';

export interface UpkeepParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly schedule: Schedule;
  readonly config: Pick<WalletConfig, 'follow' | 'idleDays'>;
}

/** Follows the wallets of the configuration, and lets go of those that nobody asks for. */
export interface Upkeep {
  start(roles: Roles): Promise<void>;
  stop(): void;
}

const LOOK_MS = 3_600_000;
const NEW_MS = 5_000;
const DAY_MS = 86_400_000;
/** Wallets that one look lets go. */
const MOST_IDLE = 1_000;

export function createUpkeep({ store, clock, log, schedule, config }: UpkeepParts): Upkeep {
  let cancel = (): void => undefined;
  let cancelSoon = (): void => undefined;
  let isStopped = false;

  async function followConfigured(): Promise<void> {
    for (const address of config.follow) {
      const key = decode32(address);
      if (key === null) {
        log.warn({ address }, 'wallet.follow names what is no address');
        continue;
      }
      const known = await readWallet(store.read as Db, address);
      if (known?.is_pinned === 1 && known.is_followed === 1) continue;
      await store.write(async (tx) => {
        await schedule(tx, await registerWallet(tx, { key, address, now: clock.now(), isPinned: true }));
      });
    }
  }

  async function letGo(): Promise<void> {
    if (config.idleDays === 0) return;
    const db = store.read as Db;
    const idle = await db
      .selectFrom('wallet_wallets')
      .select('id')
      .where('is_followed', '=', 1)
      .where('is_pinned', '=', 0)
      .where('asked_at', '<', clock.now() - config.idleDays * DAY_MS)
      .limit(MOST_IDLE)
      .execute();
    if (idle.length === 0) return;
    await store.write(async (tx) => {
      const ids = idle.map(({ id }) => id);
      await unfollowWallets(tx, ids);
    });
    log.info({ wallets: idle.length }, 'wallets that nobody asked for are no longer followed');
  }

  /** Those that a command made known, which cannot make jobs; and those that come with the blocks since their job was done. */
  async function joinNew(): Promise<void> {
    const waiting = await (store.read as Db)
      .selectFrom('wallet_wallets')
      .select('id')
      .where('is_followed', '=', 1)
      .where((eb) => eb.or([eb('head', 'is', null), eb('head', '<', sql<number>`live_from - 1`)]))
      .where('trouble', 'is', null)
      .limit(MOST_IDLE)
      .execute();
    if (waiting.length === 0) return;
    await store.write(async (tx) => {
      for (const { id } of waiting) await schedule(tx, id);
    });
  }

  function soon(): void {
    cancelSoon = clock.timeout(NEW_MS, () => {
      joinNew()
        .catch((error) => log.warn({ err: messageOf(error) }, 'new wallets could not be looked for'))
        .finally(() => {
          if (!isStopped) soon();
        });
    });
  }

  /** At the start as well: one that never runs for an hour would never let go. */
  function look(): void {
    letGo().catch((error) => log.warn({ err: messageOf(error) }, 'idle wallets could not be let go'));
    cancel = clock.timeout(LOOK_MS, look);
  }

  return {
    async start(roles) {
      if (!roles.has('indexer')) return;
      await followConfigured();
      look();
      soon();
    },
    stop() {
      isStopped = true;
      cancel();
      cancelSoon();
    },
  };
}
