import type { Election } from '../chain/election.ts';
import type { Follower } from '../chain/follower.ts';
import { createReleaseListeners } from '../chain/run.ts';
import { codeOf } from '../lib/coded-error.ts';
import type { ChainId, ChainStatus } from '../ports/chain.ts';
import type { Log } from '../ports/telemetry.ts';
import type { Announcer, FollowerRun } from './chains.ts';
import type { FollowerView } from './parts.ts';
import type { RemoteFollower } from './remote.ts';

interface ElectedFollowerOptions {
  readonly chain: ChainId;
  readonly election: Election;
  /** Created when this process becomes the leader: a standby has no metrics of a follower. */
  readonly makeFollower: () => Follower;
  /** Shows the status of the leader while that is another process. */
  readonly remote: RemoteFollower;
  readonly announce: (follower: FollowerView) => Announcer;
  readonly log: Log;
  readonly fatal: (error: unknown) => void;
}

/** The follower of a chain that several processes could follow. This process is a standby until it is elected. */
interface ElectedFollower extends FollowerRun, FollowerView {
  readonly leads: boolean;
}

export function createElectedFollower(options: ElectedFollowerOptions): ElectedFollower {
  const { chain, election, remote, log, fatal } = options;
  const listeners = createReleaseListeners(log);
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
    onReleased: listeners.add,
  };

  async function lead(): Promise<void> {
    const follower = options.makeFollower();
    follower.onReleased(listeners.call);
    leading = { follower, announcer: options.announce(view) };
    await follower.start();
    leading.announcer.start();
  }

  async function standBy(): Promise<void> {
    if (!(await election.untilLeading())) return;
    await remote.stop();
    await lead();
  }

  return {
    ...view,
    get leads() {
      return leading !== null;
    },
    async start() {
      const isElected = await election.tryLead().catch((error: unknown) => {
        log.warn({ chain, code: codeOf(error) }, 'cannot read the leader');
        return false;
      });
      if (isElected) return await lead();
      log.info({ chain, leader: election.leader()?.name ?? null }, 'standing by: another process follows the chain');
      remote.onReleased(listeners.call);
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
