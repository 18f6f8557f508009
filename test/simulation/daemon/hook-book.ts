import { deliveryKey } from '../../../plugins/webhooks/model.ts';
import type { Store } from '../../../src/ports/store.ts';
import { KEY_TEXTS } from '../follower/fake-accounts.ts';
import { keyOf, type World } from '../follower/world.ts';
import type { Network, Request } from '../webhooks/network.ts';

/** What was told of webhooks and what the chain held meanwhile, and what has to follow from both. */

export interface BookedHook {
  readonly id: string;
  /** Numbers of keys. */
  keys: readonly number[];
  active: boolean;
  /** All keys that it may ever have watched. */
  readonly ever: Set<number>;
  /** Signatures that are at least so new met it as it is now. */
  since: number;
  /** What it is like is known: the last change of it was answered. */
  isSure: boolean;
  /** `maybe`: the answer is not known. */
  deleted: 'no' | 'maybe' | 'yes';
  /** What waited for it may have been dropped. */
  wasOff: boolean;
  /** Its receiver refused some for good. */
  wasRefused: boolean;
  /** Batches may have been taken apart: what was in them goes on under other ids. */
  wasResized: boolean;
}

export interface HookBook {
  readonly hooks: BookedHook[];
  /** Notes the transactions of the chain as it is now. */
  look(world: World): void;
  /** The number that the next new transaction gets. */
  readonly now: number;
  /** Whether it was ever in a block. */
  isKnown(signature: string): boolean;
  /** A creation whose answer is not known: a webhook with these keys may be there. */
  mayHave(keys: readonly number[]): void;
  /** Learns from a list what unknown answers have done; what else it shows must be as the book has it. In words what is wrong. */
  compare(list: readonly ListedHook[]): string | null;
  /** What nobody should have been sent, bodies that changed between attempts, and events that came under two ids; from the nth request on. */
  requestFault(requests: readonly Request[], from: number): string | null;
  /** What is wrong with the outbox once everything has come to its end. */
  endFault(store: Store, world: World, network: Network): Promise<string | null>;
}

export interface ListedHook {
  readonly webhookID: string;
  readonly accountAddresses: readonly string[];
  readonly active: boolean;
}

export function createHookBook(): HookBook {
  const hooks: BookedHook[] = [];
  const ages = new Map<string, number>();
  const unknown: (readonly number[])[] = [];
  const bodies = new Map<string, string>();
  /** The message that a pair of webhook and transaction came in. */
  const messages = new Map<string, string>();
  const hookOf = (id: string) => hooks.find((hook) => hook.id === id);

  /** Whether a webhook may have been sent a transaction. */
  function isAllowed(id: string, signature: string): boolean {
    if (!ages.has(signature)) return false;
    const hook = hookOf(id);
    if (hook !== undefined) return hook.ever.has(keyOf(signature));
    return unknown.some((keys) => keys.includes(keyOf(signature)));
  }

  function take(hook: BookedHook, { accountAddresses, active }: ListedHook): void {
    Object.assign(hook, { keys: keysOf(accountAddresses), active, since: ages.size, isSure: true });
  }

  /** Deliveries that there must be, by slot. */
  function required({ chain }: World): Map<string, number> {
    const found = new Map<string, number>();
    for (const hook of hooks) {
      if (!hook.isSure || !hook.active || hook.deleted !== 'no') continue;
      for (const { slot, signatures } of chain)
        for (const signature of signatures)
          if (hook.keys.includes(keyOf(signature)) && (ages.get(signature) as number) >= hook.since)
            found.set(deliveryKey(hook.id, signature), slot);
    }
    return found;
  }

  return {
    hooks,
    get now() {
      return ages.size;
    },
    look({ chain }) {
      for (const { signatures } of chain)
        for (const signature of signatures) if (!ages.has(signature)) ages.set(signature, ages.size);
    },
    isKnown: (signature) => ages.has(signature),
    mayHave: (keys) => void unknown.push(keys),
    compare(list) {
      for (const hook of hooks) {
        const shown = list.find(({ webhookID }) => webhookID === hook.id);
        if (shown === undefined && hook.deleted === 'no') return `webhook ${hook.id} is gone`;
        if (shown !== undefined && hook.deleted === 'yes') return `webhook ${hook.id} is there again`;
        if (hook.deleted === 'maybe') hook.deleted = shown === undefined ? 'yes' : 'no';
        if (shown === undefined) continue;
        if (!hook.isSure) take(hook, shown);
        const wanted = hook.keys.map((key) => KEY_TEXTS[key]);
        if (shown.active !== hook.active || String(shown.accountAddresses) !== String(wanted))
          return `webhook ${hook.id} is ${JSON.stringify(shown)} and not ${hook.active}, ${wanted}`;
      }
      for (const { webhookID: id, accountAddresses, active } of list) {
        if (hookOf(id) !== undefined) continue;
        const keys = keysOf(accountAddresses);
        if (!unknown.some((one) => String(one) === String(keys))) return `nobody made webhook ${id}`;
        const state = { isSure: true, deleted: 'no', wasOff: false, wasRefused: false, wasResized: false } as const;
        hooks.push({ id, keys, active, ever: new Set(keys), since: ages.size, ...state });
      }
      return null;
    },
    requestFault(requests, from) {
      for (const { hook, id, body, signatures } of requests.slice(from)) {
        const known = bodies.get(id);
        if (known !== undefined && known !== body) return `message ${id} has two bodies`;
        bodies.set(id, body);
        const wrong = signatures.find((signature) => !isAllowed(hook, signature));
        if (wrong !== undefined) return `webhook ${hook} got ${wrong}, which it never watched`;
        for (const pair of signatures.map((signature) => deliveryKey(hook, signature))) {
          const before = messages.get(pair);
          const isOther = before !== undefined && before !== id && hookOf(hook)?.wasResized !== true;
          if (isOther) return `${pair} came in the messages ${before} and ${id}`;
          messages.set(pair, id);
        }
      }
      return null;
    },
    async endFault(store, world, network) {
      const wanted = required(world);
      const taken = pairsOf(network.requests.filter(({ status }) => status !== null && status < 300));
      const sent = pairsOf(network.requests);
      const rows = await store.read
        .selectFrom('outbox')
        .select(['key', 'grp', 'slot', 'state', 'claims', 'lost', 'error'])
        .where('kind', '=', 'webhooks.deliver')
        .execute();
      const slots = new Map(
        world.chain.flatMap(({ slot, signatures }) => signatures.map((one) => [one, slot] as const)),
      );
      for (const { key, grp, slot, state, claims, lost, error } of rows) {
        const what = `${key} at ${slot} is ${state}: ${error}`;
        if (String(key).includes('#forked#')) {
          if (state !== 'discarded' || claims !== 0) return `a forked delivery: ${what}`;
          continue;
        }
        const signature = String(key).slice(String(key).indexOf(':') + 1);
        if (!isAllowed(String(grp), signature)) return `a delivery of what was never watched: ${what}`;
        // Nobody but this network knows whether a process sent it before it died.
        const isKnown = !sent.has(String(key)) && lost === 0;
        if (!slots.has(signature) && isKnown && state !== 'discarded') return `a delivery of no block: ${what}`;
        if ((wanted.get(String(key)) ?? slot) !== slot) return `not at ${wanted.get(String(key))}: ${what}`;
        if (state === 'done' && !taken.has(String(key))) return `nobody took it: ${what}`;
        if (state === 'discarded' && hookOf(String(grp))?.wasOff === false && slots.has(signature))
          return `dropped: ${what}`;
        const isRefused = state === 'failed' && hookOf(String(grp))?.wasRefused === true && sent.has(String(key));
        if (wanted.delete(String(key)) && state !== 'done' && !isRefused) return `a delivery that must be: ${what}`;
      }
      const [missing] = wanted;
      return missing === undefined ? null : `no delivery for ${missing[0]} at ${missing[1]}`;
    },
  };
}

const keysOf = (texts: readonly string[]) => texts.map((text) => KEY_TEXTS.indexOf(text));

/** Pairs of webhook and transaction, in the form of keys of deliveries. */
export const pairsOf = (requests: readonly Request[]): ReadonlySet<string> =>
  new Set(requests.flatMap(({ hook, signatures }) => signatures.map((signature) => deliveryKey(hook, signature))));
