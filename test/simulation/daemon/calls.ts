/** What is asked of the daemon in a random life. */
import { KEY_TEXTS, PAYER_TEXT, touches } from '../follower/fake-accounts.ts';
import type { BookedHook, HookBook, ListedHook } from './hook-book.ts';
import { demand, type Planned, type Scene } from './scene.ts';

const MAX_HOOKS = 4;
const WALLETS = [...KEY_TEXTS, PAYER_TEXT];

/** Null where nothing is to be asked. */
export function randomCall(scene: Scene): Planned | null {
  const { draw } = scene.rig;
  const living = scene.hooks.hooks.filter(({ deleted }) => deleted === 'no');
  const hook = living[draw.below(Math.max(1, living.length))];
  const dice = draw.below(12);
  if (dice < 2 || hook === undefined) return living.length < MAX_HOOKS ? create(scene, someKeys(scene)) : null;
  if (dice < 4)
    return scene.rig.faults.isHarsh && draw.below(3) === 0 ? resize(scene, hook) : edit(scene, hook, someKeys(scene));
  if (dice < 6) return toggle(scene, hook, draw.below(3) > 0);
  if (dice < 7) return remove(hook);
  if (dice < 8) return usage(scene);
  return wallet(scene, WALLETS[draw.below(WALLETS.length)]!);
}

function someKeys({ rig: { draw } }: Scene): readonly number[] {
  const keys = KEY_TEXTS.map((_, key) => key).filter(() => draw.below(2) === 0);
  return keys.length === 0 ? [0] : keys;
}

export function create({ hooks, rig: { draw } }: Scene, keys: readonly number[]): Planned {
  const body = {
    webhookURL: 'https://receiver.example/',
    webhookType: 'raw',
    retryPreset: 'durable',
    accountAddresses: keys.map((key) => KEY_TEXTS[key]),
    batchSize: draw.below(3) === 0 ? 3 : 1,
    ordered: draw.below(4) === 0,
    onInactive: draw.below(2) === 0 ? 'hold' : 'drop',
  };
  return {
    kind: 'write',
    method: 'POST',
    path: '/v0/webhooks',
    body,
    take({ status, body }) {
      if (status !== 200) return hooks.mayHave(keys);
      const id = (body as ListedHook).webhookID;
      const known = { isSure: true, deleted: 'no', wasOff: false, wasRefused: false, wasResized: false } as const;
      hooks.hooks.push({ id, keys, active: true, ever: new Set(keys), since: hooks.now, ...known });
    },
  };
}

/** What follows from the answer to a change. */
function settleChange(hooks: HookBook, hook: BookedHook, status: number | null, change: Partial<BookedHook>): void {
  demand(status === 404 ? `webhook ${hook.id} is not found` : null);
  const isDone = status === 200;
  Object.assign(hook, isDone ? change : {}, { since: hooks.now, isSure: isDone && hook.isSure });
}

function edit({ hooks }: Scene, hook: BookedHook, keys: readonly number[]): Planned {
  for (const key of keys) hook.ever.add(key);
  return {
    kind: 'write',
    method: 'PUT',
    path: `/v0/webhooks/${hook.id}`,
    body: { accountAddresses: keys.map((key) => KEY_TEXTS[key]) },
    take: ({ status }) => settleChange(hooks, hook, status, { keys }),
  };
}

function resize({ hooks, rig: { draw } }: Scene, hook: BookedHook): Planned {
  hook.wasResized = true;
  return {
    kind: 'write',
    method: 'PUT',
    path: `/v0/webhooks/${hook.id}`,
    body: { batchSize: 1 + draw.below(3) },
    take: ({ status }) => settleChange(hooks, hook, status, {}),
  };
}

function toggle({ hooks }: Scene, hook: BookedHook, active: boolean): Planned {
  if (!active) hook.wasOff = true;
  return {
    kind: 'write',
    method: 'PATCH',
    path: `/v0/webhooks/${hook.id}`,
    body: { active },
    take: ({ status }) => settleChange(hooks, hook, status, { active }),
  };
}

function remove(hook: BookedHook): Planned {
  hook.wasOff = true;
  return {
    kind: 'write',
    method: 'DELETE',
    path: `/v0/webhooks/${hook.id}`,
    take({ status }) {
      if (status === 200) hook.deleted = 'yes';
      else if (hook.deleted === 'no') hook.deleted = 'maybe';
    },
  };
}

export function list({ hooks }: Scene): Planned {
  return {
    kind: 'list',
    method: 'GET',
    path: '/v0/webhooks',
    take: ({ status, body }) => demand(status === 200 ? hooks.compare(body as ListedHook[]) : null),
  };
}

/** Reading usage writes what was counted, and costs nothing. */
const usage = ({ projectId }: Scene): Planned => ({
  kind: 'free',
  method: 'GET',
  path: `/v0/admin/projects/${projectId}/usage`,
  take: () => undefined,
});

function wallet({ hooks, wallets }: Scene, address: string): Planned {
  wallets.add(address);
  return {
    kind: 'wallet',
    method: 'GET',
    path: `/v1/wallet/${address}/history?limit=100`,
    take({ status, body }) {
      if (status !== 200) return;
      const shown = (body as WalletPage).data.map(({ signature }) => signature);
      if (new Set(shown).size !== shown.length) demand(`the history of ${address} repeats itself`);
      const wrong = shown.find((signature) => !touches(address, signature) || !hooks.isKnown(signature));
      if (wrong !== undefined) demand(`the history of ${address} holds ${wrong}`);
    },
  };
}

export interface WalletPage {
  readonly data: readonly { readonly signature: string; readonly slot: number }[];
  readonly pagination: { readonly hasMore: boolean; readonly nextCursor: string | null };
}
