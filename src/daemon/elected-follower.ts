import type { Election } from '../chain/election.ts';
import type { Follower } from '../chain/follower.ts';
import { codeOf, messageOf } from '../lib/coded-error.ts';
import type { BlockHeader } from '../ports/block.ts';
import type { ChainId, ChainStatus } from '../ports/chain.ts';
import type { Log } from '../ports/log.ts';
import type { Announcer, FollowerRun } from './chain-run.ts';
import type { FollowerView } from './parts.ts';
import type { RemoteFollower } from './remote-follower.ts';

export interface ElectedFollowerOptions {
  readonly chain: ChainId;
  readonly election: Election;
  /** Made when this process leads: one that stands by has no numbers of a follower. */
  readonly makeFollower: () => Follower;
  /** Shows what the leader does as long as that is another process. */
  readonly remote: RemoteFollower;
  readonly announce: (follower: FollowerView) => Announcer;
  readonly log: Log;
  readonly fatal: (error: unknown) => void;
}

/** The follower of a chain that one of several processes follows: this one once it is elected, until then it stands by. */
export interface ElectedFollower extends FollowerRun, FollowerView {
  readonly leads: boolean;
}

export function createElectedFollower(options: ElectedFollowerOptions): ElectedFollower {
  const { chain, election, remote, log, fatal } = options;
  const listeners = new Set<(header: BlockHeader) => void>();
  const released = (header: BlockHeader) => {
    for (const listener of listeners) {
      try {
        listener(header);
      } catch (error) {
        log.error({ error: messageOf(error), slot: header.slot }, 'a listener for released blocks threw');
      }
    }
  };
  let leading: { readonly follower: Follower; readonly announcer: Announcer } | null = null;
  let waiting: Promise<void> = Promise.resolve();

  const status = (): Partial<ChainStatus> => {
    const leader = election.leader();
    const led = leader === null ? {} : { leader };
    return leading === null
      ? { ...remote.status(), ...led, isStandby: true }
      : { ...leading.follower.status(), ...led };
  };
  const view: FollowerView = {
    status,
    onReleased(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };

  async function lead(): Promise<void> {
    const follower = options.makeFollower();
    follower.onReleased(released);
    leading = { follower, announcer: options.announce(view) };
    await follower.start();
    leading.announcer.start();
  }

  async function standBy(): Promise<void> {
    if (!(await election.won())) return;
    await remote.stop();
    await lead();
  }

  return {
    ...view,
    get leads() {
      return leading !== null;
    },
    async start() {
      const isElected = await election.look().catch((error: unknown) => {
        log.warn({ chain, code: codeOf(error) }, 'who leads is unknown');
        return false;
      });
      if (isElected) return await lead();
      log.info({ chain, leader: election.leader()?.name ?? null }, 'standing by: another process follows the chain');
      remote.onReleased(released);
      await remote.start();
      waiting = standBy().catch(fatal);
    },
    async drain() {
      election.stop();
      await leading?.follower.drain();
    },
    async stop() {
      election.stop();
      await waiting;
      if (leading === null) await remote.stop();
      leading?.announcer.stop();
      await leading?.follower.stop();
      await election.resign();
    },
  };
}
