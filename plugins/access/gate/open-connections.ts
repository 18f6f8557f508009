import { createRightsWatch, type RightsWatch } from '../../../src/lib/rights-watch.ts';
import type { StayingClient, Watched } from '../../../src/plugin/host.ts';
import { type Caller, type Clock, GateRefusal, type Log, type Store } from '../../../src/plugin/plugin.ts';
import { findRights, type KeyRights, type KeyRules, readRules } from '../directory.ts';
import { isNarrower } from './rules.ts';
import type { GateSessions } from './sessions.ts';
import type { Strangers } from './strangers.ts';

/** How often the keys of long-lived callers are checked; a command next to a daemon on SQLite cannot send a hint. */
const LOOK_MS = 500;

interface OpenConnectionsParts {
  readonly sessions: GateSessions;
  readonly strangers: Strangers;
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
}

/** Ends open connections whose key, project or network may not call any more. */
export class OpenConnections {
  private readonly parts: OpenConnectionsParts;
  private readonly rights: RightsWatch<KeyRights>;

  constructor(parts: OpenConnectionsParts) {
    const { store, clock, log } = parts;
    this.parts = parts;
    this.rights = createRightsWatch<KeyRights>({
      clock,
      everyMs: LOOK_MS,
      read: (keyIds) => findRights(store, keyIds),
      failed: (error) => log.warn({ err: error }, 'cannot check the keys of open connections'),
    });
  }

  /** `onRefused` is called once, when the connection must end; `onPlan` when its plan has changed. */
  watch(
    caller: Caller,
    client: StayingClient,
    onRefused: (refusal: GateRefusal) => void,
    onPlan?: () => void,
  ): Watched {
    const { sessions } = this.parts;
    const session = sessions.get(caller);
    if (session === undefined) return { caller, end: () => undefined };
    if (session.key === null || caller.keyId === null)
      return session.own === null ? { caller, end: () => undefined } : this.watchStranger(caller, client, onRefused);
    const own = { ...caller };
    sessions.set(own, { ...session, client });
    const judge = this.createJudge(session.key.rules);
    let { plan } = caller;
    const end = this.rights.add(caller.keyId, (row) => {
      const refusal = row === null ? new GateRefusal('bad-key') : judge(row, client);
      if (refusal === null) {
        if (row === null || row.plan === plan) return;
        plan = row.plan;
        onPlan?.();
        return;
      }
      end();
      sessions.end(own);
      sessions.count(refusal);
      onRefused(refusal);
    });
    return { caller: own, end };
  }

  lookNow(): void {
    this.rights.lookNow();
  }

  stop(): void {
    this.rights.stop();
  }

  /** Calls without a key end with their project, or when a reload takes their network off the list. */
  private watchStranger(
    caller: Caller,
    { remoteAddress }: StayingClient,
    onRefused: (refusal: GateRefusal) => void,
  ): Watched {
    const { sessions, strangers, clock } = this.parts;
    const own = { ...caller };
    const session = sessions.get(caller);
    if (session !== undefined) sessions.set(own, session);
    let isOver = false;
    let cancel = clock.timeout(LOOK_MS, look);
    function look(): void {
      void strangers
        .find(remoteAddress)
        .then((found) => found?.caller.projectId === caller.projectId)
        // The store cannot be asked: rights stay as they were.
        .catch(() => true)
        .then((isAllowed) => {
          if (isOver) return;
          if (isAllowed) {
            cancel = clock.timeout(LOOK_MS, look);
            return;
          }
          isOver = true;
          sessions.end(own);
          const refusal = new GateRefusal('no-key');
          sessions.count(refusal);
          onRefused(refusal);
        });
    }
    return {
      caller: own,
      end() {
        isOver = true;
        cancel();
      },
    };
  }

  /** Checks a key by its row; its lists are parsed again only if they changed. */
  private createJudge(first: KeyRules): (row: KeyRights, client: StayingClient) => GateRefusal | null {
    let text = '';
    let rules = first;
    return (row, { remoteAddress, origin }) => {
      const now = JSON.stringify([row.permissions, row.cidrs, row.origins]);
      if (now !== text) rules = readRules(row);
      text = now;
      // Open connections were admitted with the earlier permissions.
      if (isNarrower(rules.permissions, first.permissions)) return new GateRefusal('permission');
      return this.parts.sessions.refusalOf({ rules, expiresAt: row.expires_at }, remoteAddress, origin);
    };
  }
}
