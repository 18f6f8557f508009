/**
 * Brings our webhooks to what the plan wants, however often it runs and wherever it was killed. Ours have no mark of where they come from:
 * what was `creating` is found again by its content, each of ours for one of theirs.
 */
import { CodedError, codeOf, EXIT } from '../../lib/coded-error.ts';
import { isPlainObject } from '../../lib/json.ts';
import { fingerprintOf, isLabelledOtherwise, type PlannedWebhook, planHelius, type WantedWebhook } from './hosted.ts';
import type { Service } from './service.ts';
import type { createSecrets, MoveState } from './state.ts';

export type MoveAct = 'created' | 'found' | 'changed' | 'same' | 'deleted' | 'gone' | 'refused' | 'impossible';

export interface MoveResult {
  readonly theirs: string;
  readonly ours: string | null;
  readonly act: MoveAct;
  readonly reasons: readonly string[];
}

export interface ApplyParts {
  readonly daemon: Service;
  readonly state: MoveState;
  /** Stores the state. */
  readonly save: () => void;
  readonly secrets: ReturnType<typeof createSecrets>;
  /** Ours stay off until the switch. */
  readonly inactive: boolean;
  /** Ours are deleted when theirs are. */
  readonly mirror: boolean;
}

interface OwnWebhook {
  readonly id: string;
  readonly active: boolean;
  readonly fingerprint: string;
  /** Its content on our side; null: it has a type that no plan wants. */
  readonly content: WantedWebhook | null;
}

/** So many webhooks are created between two writes of the state; what is lost is found again by its content. */
const SAVE_EVERY = 50;
const HOOKS = '/v0/webhooks';

export async function applyPlan(parts: ApplyParts, plan: readonly PlannedWebhook[]): Promise<MoveResult[]> {
  const { state, save } = parts;
  const own = await readOwn(parts.daemon);
  const taken = new Set(Object.values(state.entries).flatMap(({ ours }) => ours ?? []));
  const free = new Map<string, OwnWebhook[]>();
  for (const webhook of own.values()) {
    if (taken.has(webhook.id)) continue;
    free.set(webhook.fingerprint, [...(free.get(webhook.fingerprint) ?? []), webhook]);
  }
  const results: MoveResult[] = [];
  for (const { id, active, wanted } of plan)
    if (wanted !== null && state.entries[id]?.mode !== 'created')
      state.entries[id] = { mode: 'creating', ours: null, reason: null, active };
  save();
  for (const [index, item] of plan.entries()) {
    results.push(await bring(parts, item, own, free));
    if (index % SAVE_EVERY === SAVE_EVERY - 1) save();
  }
  results.push(...(await dropGone(parts, plan, own)));
  save();
  return results;
}

async function bring(
  parts: ApplyParts,
  { id, active, wanted, reasons }: PlannedWebhook,
  own: ReadonlyMap<string, OwnWebhook>,
  free: Map<string, OwnWebhook[]>,
): Promise<MoveResult> {
  if (wanted === null) return { theirs: id, ours: null, act: 'impossible', reasons };
  const { daemon, state, secrets } = parts;
  const entry = state.entries[id];
  const isOn = active && !parts.inactive;
  const known = entry?.ours == null ? undefined : own.get(entry.ours);
  const keep = (ours: string) => {
    state.entries[id] = { mode: 'created', ours, reason: null, active };
  };
  try {
    if (known !== undefined) {
      const isChanged = isOther(known, wanted, isOn);
      if (isChanged) await change(daemon, known, wanted, isOn);
      await completeSecret(parts, known.id);
      keep(known.id);
      return { theirs: id, ours: known.id, act: isChanged ? 'changed' : 'same', reasons };
    }
    const found = free.get(fingerprintOf(wanted))?.shift();
    if (found !== undefined) {
      if (isOther(found, wanted, isOn)) await change(daemon, found, wanted, isOn);
      await completeSecret(parts, found.id);
      keep(found.id);
      return { theirs: id, ours: found.id, act: 'found', reasons };
    }
    const made = await daemon.ask('POST', HOOKS, bodyOf(wanted, isOn));
    const ours = isPlainObject(made) ? made['webhookID'] : undefined;
    if (typeof ours !== 'string')
      throw new CodedError('MOVE_SERVICE', `${daemon.host} did not answer with a webhook`, {
        exitCode: EXIT.temporary,
      });
    secrets.add(ours, (made as Record<string, unknown>)['signingSecret']);
    keep(ours);
    return { theirs: id, ours, act: 'created', reasons };
  } catch (error) {
    if (codeOf(error) !== 'MOVE_REFUSED' || !isAboutTheWebhook(error)) {
      parts.save();
      throw error;
    }
    const reason = String((error as CodedError).facts['said']);
    // It is about the project: every further one would be refused too.
    if (reason.includes('reached webhook limit')) {
      parts.save();
      throw error;
    }
    state.entries[id] = { mode: 'refused', ours: entry?.ours ?? null, reason, active };
    return { theirs: id, ours: entry?.ours ?? null, act: 'refused', reasons: [reason] };
  }
}

/** Others, such as a wrong key, end the run. */
const isAboutTheWebhook = (error: unknown) => [400, 413, 422].includes(Number((error as CodedError).facts['status']));

const hasOtherContent = (ours: OwnWebhook, wanted: WantedWebhook): boolean =>
  ours.fingerprint !== fingerprintOf(wanted) || (ours.content !== null && isLabelledOtherwise(ours.content, wanted));
const isOther = (ours: OwnWebhook, wanted: WantedWebhook, isOn: boolean): boolean =>
  ours.active !== isOn || hasOtherContent(ours, wanted);

const bodyOf = ({ authHeader, txnStatus, encoding, name, description, ...wanted }: WantedWebhook, active: boolean) => ({
  ...wanted,
  active,
  ...(name === null ? {} : { name }),
  ...(description === null ? {} : { description }),
  ...(authHeader === null ? {} : { authHeader }),
  ...(txnStatus === null ? {} : { txnStatus }),
  ...(encoding === null ? {} : { encoding }),
});

async function change(daemon: Service, known: OwnWebhook, wanted: WantedWebhook, isOn: boolean): Promise<void> {
  const path = `${HOOKS}/${known.id}`;
  if (hasOtherContent(known, wanted))
    await daemon.ask('PUT', path, { ...bodyOf(wanted, isOn), authHeader: wanted.authHeader });
  else await daemon.ask('PATCH', path, { active: isOn });
}

/** A secret that was lost with the answer is replaced: nobody knows the old one. */
async function completeSecret({ daemon, secrets }: ApplyParts, ours: string): Promise<void> {
  if (!secrets.isWanted || secrets.has(ours)) return;
  const made = await daemon.ask('POST', `${HOOKS}/${ours}/secret/rotate`, { overlapSeconds: 0 });
  if (isPlainObject(made)) secrets.add(ours, made['signingSecret'] ?? made['secret']);
}

/** Theirs that are no longer in their list. */
async function dropGone(
  { daemon, state, mirror }: ApplyParts,
  plan: readonly PlannedWebhook[],
  own: ReadonlyMap<string, OwnWebhook>,
): Promise<MoveResult[]> {
  const left = new Set(plan.map(({ id }) => id));
  const results: MoveResult[] = [];
  for (const [theirs, { ours }] of Object.entries(state.entries)) {
    if (left.has(theirs)) continue;
    if (ours === null || !own.has(ours)) {
      delete state.entries[theirs];
      continue;
    }
    if (!mirror) {
      results.push({
        theirs,
        ours,
        act: 'gone',
        reasons: ['it is no longer there; ours stays (--mirror would delete it)'],
      });
      continue;
    }
    await daemon.ask('DELETE', `${HOOKS}/${ours}`);
    delete state.entries[theirs];
    results.push({ theirs, ours, act: 'deleted', reasons: [] });
  }
  return results;
}

/** All of our webhooks with all addresses, which the list cuts. */
async function readOwn(daemon: Service): Promise<Map<string, OwnWebhook>> {
  const list = await daemon.ask('GET', HOOKS);
  if (!Array.isArray(list))
    throw new CodedError('MOVE_SERVICE', `${daemon.host} does not list webhooks: is it a daemon of parhelion?`, {
      exitCode: EXIT.temporary,
    });
  const own = new Map<string, OwnWebhook>();
  for (const listed of list as Record<string, unknown>[]) {
    const id = String(listed['webhookID']);
    const shown = listed['accountAddresses'];
    const isCut = !Array.isArray(shown) || shown.length !== listed['addressCount'];
    const whole = isCut ? ((await daemon.ask('GET', `${HOOKS}/${id}`)) as Record<string, unknown>) : listed;
    const { wanted } = planHelius(whole);
    const fingerprint = wanted === null ? `other ${id}` : fingerprintOf(wanted);
    own.set(id, { id, active: whole['active'] === true, fingerprint, content: wanted });
  }
  return own;
}

/** Turns ours on, those whose counterpart was on. Returns how many. */
export async function switchOver({
  daemon,
  state,
  save,
}: Pick<ApplyParts, 'daemon' | 'state' | 'save'>): Promise<number> {
  let count = 0;
  for (const { ours, active } of Object.values(state.entries)) {
    if (ours === null || !active) continue;
    await daemon.ask('PATCH', `${HOOKS}/${ours}`, { active: true });
    count += 1;
  }
  state.switched = true;
  save();
  return count;
}

export interface VerifiedWebhook {
  readonly theirs: string;
  readonly ours: string;
  /** `delivers`: the newest delivery succeeded; `silent`: there was none yet; `fails`; `off`. */
  readonly verdict: 'delivers' | 'silent' | 'fails' | 'off';
  readonly detail: string;
}

/** What the deliveries of each webhook say. `sendTest`: sends a sample event to those that are silent. */
export async function verifyMove(daemon: Service, state: MoveState, sendTest: boolean): Promise<VerifiedWebhook[]> {
  const own = await readOwn(daemon);
  const results: VerifiedWebhook[] = [];
  for (const [theirs, { ours }] of Object.entries(state.entries)) {
    if (ours === null) continue;
    const { verdict, detail } = await verify(daemon, own.get(ours), sendTest);
    results.push({ theirs, ours, verdict, detail });
  }
  return results;
}

async function verify(
  daemon: Service,
  webhook: OwnWebhook | undefined,
  sendTest: boolean,
): Promise<Pick<VerifiedWebhook, 'verdict' | 'detail'>> {
  if (webhook === undefined) return { verdict: 'fails', detail: 'it is gone: run the move again' };
  const path = `${HOOKS}/${webhook.id}`;
  const page = (await daemon.ask('GET', `${path}/deliveries?limit=20`)) as Record<string, unknown>;
  const list = Array.isArray(page['data']) ? (page['data'] as Record<string, unknown>[]) : [];
  const ended = list.filter(({ status }) => status === 'delivered' || status === 'failed');
  const [newest] = ended;
  if (newest !== undefined) {
    const failed = ended.filter(({ status }) => status === 'failed').length;
    const isFine = newest['status'] !== 'failed';
    return {
      verdict: isFine ? 'delivers' : 'fails',
      detail: `${ended.length} of the last deliveries have ended, ${failed} failed`,
    };
  }
  if (!webhook.active) return { verdict: 'off', detail: 'it is off' };
  if (!sendTest) return { verdict: 'silent', detail: 'no delivery yet; --test sends a sample event' };
  const answer = (await daemon.ask('POST', `${path}/test`, {})) as Record<string, unknown>;
  const isFine = answer['delivered'] === true;
  const said = answer['statusCode'] ?? answer['failure'] ?? 'nothing';
  return { verdict: isFine ? 'delivers' : 'fails', detail: `a sample event: ${String(said)}` };
}
