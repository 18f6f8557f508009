import type { Credentials, StayingClient } from '../../../src/plugin/host.ts';
import { type Caller, type Clock, GateRefusal } from '../../../src/plugin/plugin.ts';
import type { Counter } from '../../../src/ports/telemetry.ts';
import type { ProjectAccount } from '../account.ts';
import type { Directory, KeyRules, KnownKey } from '../directory.ts';
import { isKeyForm, keyName } from '../keys.ts';
import type { createGuessBrake } from '../rates.ts';
import { presentedKey } from './rules.ts';
import type { Anonymous, Strangers } from './strangers.ts';

/** The limits of a caller. */
export interface GateSession {
  readonly account: ProjectAccount;
  /** Null: a caller without a key. */
  readonly key: KnownKey | null;
  readonly rules: KeyRules | null;
  /** Rates of this caller only, instead of the project's. */
  readonly own: Anonymous | null;
  /** Client of a long-lived caller: its key must stay allowed for this client. */
  readonly client: StayingClient | null;
}

interface SessionsParts {
  readonly directory: Directory;
  readonly clock: Clock;
  readonly strangers: Strangers;
  /** Slows down who guesses keys. */
  readonly brake: ReturnType<typeof createGuessBrake>;
  readonly refusals: { with(reason: string): Counter };
}

/**
 * Who calls, and with which limits. It does not reveal whether a wrong key is unknown, revoked or expired. Cached keys need no promise.
 */
export class GateSessions {
  private readonly parts: SessionsParts;
  private readonly byCaller = new WeakMap<Caller, GateSession>();

  constructor(parts: SessionsParts) {
    this.parts = parts;
  }

  get(caller: Caller): GateSession | undefined {
    return this.byCaller.get(caller);
  }

  set(caller: Caller, session: GateSession): void {
    this.byCaller.set(caller, session);
  }

  /** Its calls are refused from now on. */
  end(caller: Caller): void {
    this.byCaller.delete(caller);
  }

  /** Counts the refusal and throws it. */
  refuse(refusal: GateRefusal): never {
    this.count(refusal);
    throw refusal;
  }

  count({ reason }: GateRefusal): void {
    this.parts.refusals.with(reason).add();
  }

  /** The caller with these credentials. Throws GateRefusal. */
  authenticate(credentials: Credentials, address: string): Caller | Promise<Caller> {
    const { directory, strangers } = this.parts;
    const key = presentedKey(credentials);
    if (key === null) return strangers.isOpen() ? this.acceptStranger(address) : this.refuse(new GateRefusal('no-key'));
    if (!isKeyForm(key)) return this.refuse(new GateRefusal('bad-key'));
    const name = keyName(key);
    const known = directory.known(name);
    if (known !== undefined) return this.accept(known, credentials, address);
    return this.lookUp(name, address).then((found) => this.accept(found, credentials, address));
  }

  /** The session of a caller as it is now, possibly long after authentication: a websocket, or a slow body. Throws GateRefusal. */
  current(caller: Caller): GateSession | Promise<GateSession> {
    const { directory } = this.parts;
    const session = this.byCaller.get(caller);
    if (session === undefined) return this.refuse(new GateRefusal('bad-key'));
    const { key } = session;
    if (key === null || directory.isCurrent(key)) return session;
    const known = directory.known(key.name);
    if (known !== undefined) return this.renew(caller, known);
    return directory.ask(key.name).then((found) => this.renew(caller, found));
  }

  /** A caller without a key for a project. Throws GateRefusal. */
  async callerOf(projectId: string): Promise<Caller> {
    const account = await this.parts.directory.project(projectId);
    if (account === null || account.isDisabled) return this.refuse(new GateRefusal('bad-key'));
    const { plan, budgets } = account.limits;
    const caller: Caller = { projectId, keyId: null, plan, wallet: null, budgets };
    this.set(caller, { account, key: null, rules: null, own: null, client: null });
    return caller;
  }

  /** Why an existing key may not be used now by this client; null if it may. */
  refusalOf(
    { rules, expiresAt }: Pick<KnownKey, 'rules' | 'expiresAt'>,
    address: string,
    origin: string | undefined,
  ): GateRefusal | null {
    if (expiresAt !== null && expiresAt <= this.parts.clock.now()) return new GateRefusal('bad-key');
    if (rules.allowsAddress !== null && !rules.allowsAddress(address)) return new GateRefusal('ip');
    if (rules.allowsOrigin !== null && !rules.allowsOrigin(origin))
      return new GateRefusal('permission', { details: 'Origin not allowed for this API key' });
    return null;
  }

  private accept(key: KnownKey, { origin }: Credentials, address: string): Caller {
    const { rules, caller } = key;
    const refusal = this.refusalOf(key, address, origin);
    if (refusal !== null) return this.refuse(refusal);
    if (!this.byCaller.has(caller)) this.set(caller, { account: key.account, key, rules, own: null, client: null });
    return caller;
  }

  private async acceptStranger(address: string): Promise<Caller> {
    const found = await this.parts.strangers.find(address);
    if (found === null) return this.refuse(new GateRefusal('no-key'));
    this.set(found.caller, { account: found.account, key: null, rules: null, own: found, client: null });
    return found.caller;
  }

  private async lookUp(name: string, address: string): Promise<KnownKey> {
    const { directory, brake } = this.parts;
    const ask = () => directory.ask(name);
    try {
      // Wrong keys from the same address must not block a key that was valid before.
      return await (directory.isFamiliar(name) ? ask() : brake.look(address, ask));
    } catch (error) {
      if (!(error instanceof GateRefusal)) throw error;
      await brake.wrong(address).catch((slowed: GateRefusal) => this.refuse(slowed));
      return this.refuse(error);
    }
  }

  private renew(caller: Caller, key: KnownKey): GateSession {
    const client = this.byCaller.get(caller)?.client ?? null;
    const isExpired = key.expiresAt !== null && key.expiresAt <= this.parts.clock.now();
    // The client of a request was checked at its start; that of a socket must be checked repeatedly.
    const refusal =
      client !== null
        ? this.refusalOf(key, client.remoteAddress, client.origin)
        : isExpired
          ? new GateRefusal('bad-key')
          : null;
    if (refusal !== null) return this.refuse(refusal);
    const session: GateSession = { account: key.account, key, rules: key.rules, own: null, client };
    this.set(caller, session);
    return session;
  }
}
