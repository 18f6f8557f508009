import { type Caller, type Clock, GateRefusal, type Store } from '../../../src/kernel/plugin.ts';
import { createLru } from '../../../src/lib/lru.ts';
import { type Account, createAccount, isAtRest, type ProjectState, takeState } from '../metering/account.ts';
import type { Plans } from '../plans/plans.ts';
import type { KeyRules } from './key-rules.ts';
import { findKey, findProject } from './look-up.ts';

/** A key as it is remembered. */
export interface KnownKey {
  readonly name: string;
  readonly caller: Caller;
  readonly account: Account;
  readonly rules: KeyRules;
  /** Unix milliseconds. */
  readonly expiresAt: number | null;
  /** Monotonic milliseconds: when it was asked for, */
  readonly askedMs: number;
  /** from then on it is asked for again beside the call that uses it, */
  readonly refreshMs: number;
  /** and from then on no call goes before it was. */
  readonly untilMs: number;
}

export interface DirectoryParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly plans: () => Plans;
  readonly keyCacheSize: number;
  readonly keyCacheMs: number;
}

/** Keys and projects of the store, remembered for a short time. */
export interface Directory {
  /** `name` is the hash of the key as text. Undefined: not remembered, ask. Throws `bad-key` for one that is known to be unknown. */
  known(name: string): KnownKey | undefined;
  /** Asks the store; callers that come together share one question. Throws `bad-key`. */
  ask(name: string): Promise<KnownKey>;
  /** The account of a project, for calls without a key. Null: no such project. */
  project(id: string): Account | Promise<Account | null>;
  /** What is remembered of a project and its keys is asked for again before it is used. */
  forget(projectId: string): void;
}

/** Unknown keys that are remembered, apart from the known ones, so that guessing cannot push those out. */
const UNKNOWN_KEYS = 1_000;

export function createDirectory({ store, clock, plans, keyCacheSize, keyCacheMs }: DirectoryParts): Directory {
  // One more, because the cache takes a start at 0 for none, and a clock may begin there.
  const now = () => clock.monotonic() + 1;
  const known = createLru<string, KnownKey>({ max: keyCacheSize });
  const unknown = createLru<string, true>({ max: UNKNOWN_KEYS, ttl: keyCacheMs, ttlResolution: 0, perf: { now } });
  const accounts = createLru<string, Account>({ max: keyCacheSize });
  const projectUntilMs = createLru<string, number>({ max: keyCacheSize });
  const asking = new Map<string, Promise<KnownKey>>();

  function accountOf(state: ProjectState, revision: number | undefined): Account {
    const account = accounts.get(state.projectId);
    if (account === undefined) {
      const made = createAccount(state, clock.now());
      accounts.set(state.projectId, made);
      return made;
    }
    // A write ended, or runs, since the question was put: what it says is newer.
    if (account.revision === revision && isAtRest(account)) takeState(account, state, clock.now());
    else account.limits = state.limits;
    return account;
  }

  async function look(name: string): Promise<KnownKey> {
    const revision = known.peek(name)?.account.revision;
    const askedMs = clock.monotonic();
    const found = await findKey(store, plans(), Buffer.from(name, 'base64'));
    if (found === null) {
      known.delete(name);
      if (keyCacheMs > 0) unknown.set(name, true);
      throw new GateRefusal('bad-key');
    }
    const { keyId, rules, expiresAt, wallet, project } = found;
    const { projectId, limits } = project.state;
    const key: KnownKey = {
      ...{ name, rules, expiresAt },
      account: accountOf(project.state, revision),
      caller: { projectId, keyId, plan: limits.plan, wallet },
      askedMs,
      refreshMs: askedMs + keyCacheMs / 2,
      untilMs: askedMs + keyCacheMs,
    };
    if (keyCacheMs > 0) known.set(name, key);
    return key;
  }

  function ask(name: string): Promise<KnownKey> {
    const running = asking.get(name);
    if (running !== undefined) return running;
    const answer = look(name).finally(() => asking.delete(name));
    asking.set(name, answer);
    return answer;
  }

  return {
    known(name) {
      const key = known.get(name);
      if (key === undefined) {
        if (unknown.has(name)) throw new GateRefusal('bad-key');
        return undefined;
      }
      const nowMs = clock.monotonic();
      if (nowMs > key.untilMs || key.askedMs <= key.account.changedMs) return undefined;
      // Busy keys are never waited for: their next question is put before the last answer is too old.
      if (nowMs > key.refreshMs && !asking.has(name)) ask(name).catch(() => undefined);
      return key;
    },
    ask,
    project(id) {
      const account = accounts.get(id);
      if (account !== undefined && (projectUntilMs.get(id) ?? 0) >= clock.monotonic()) return account;
      return findProject(store, plans(), id).then((found) => {
        if (found === null) return null;
        projectUntilMs.set(id, clock.monotonic() + keyCacheMs);
        return accountOf(found.state, account?.revision);
      });
    },
    forget(projectId) {
      const account = accounts.peek(projectId);
      if (account !== undefined) account.changedMs = clock.monotonic();
      projectUntilMs.delete(projectId);
      // One of its keys may be new.
      unknown.clear();
    },
  };
}
