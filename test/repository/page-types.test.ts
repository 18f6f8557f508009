/**
 * The pages of the dashboard show what routes of other plugins answer. Plugins never import each other, so the types of these answers stand in
 * `api.ts` of the pages. Here the compiler compares them with the schemas of the routes, of which the OpenAPI document is made.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Static, TSchema } from '@sinclair/typebox';
import { treeState } from '../../plugins/compression/chain/watch.ts';
import type {
  BalanceChanges,
  Balances,
  HookHealth,
  KnownInterface,
  ListedDeliveries,
  ShownDelivery,
  ShownFailingHook,
  ShownWebhook,
  TransactionAnswer,
  Tree,
  UploadedInterface,
  Wallet,
  WordsPage,
} from '../../plugins/dashboard/app/api.ts';
import { parsedReply } from '../../plugins/parsed/routes.ts';
import { knownReply, uploadReply } from '../../plugins/parsed/uploads.ts';
import { balancesReply } from '../../plugins/wallet/balances/route.ts';
import { historyReply } from '../../plugins/wallet/history.ts';
import { walletReply } from '../../plugins/wallet/operator.ts';
import {
  deliveryReply,
  healthReply,
  missedReply,
  pageReply,
  webhookReply,
} from '../../plugins/webhooks/routes/common.ts';
import { failingReply } from '../../plugins/webhooks/routes/health.ts';
import { loadCliConfig } from '../../src/cli/load-config.ts';
import { assembleOffline } from '../../src/cli/offline.ts';
import { findProjectRoot } from '../helpers/project-root.ts';

/** It does not compile unless each answer that the schema allows is one that the page can show. */
const shown =
  <Shown>() =>
  <S extends TSchema>(schema: S & ([Static<S>] extends [Shown] ? unknown : never)): TSchema =>
    schema;

const SHOWN: Readonly<Record<string, TSchema>> = {
  tree: shown<Tree>()(treeState),
  wallet: shown<Wallet>()(walletReply),
  webhook: shown<ShownWebhook>()(webhookReply),
  health: shown<HookHealth>()(healthReply),
  failing: shown<ShownFailingHook>()(failingReply),
  delivery: shown<ShownDelivery>()(deliveryReply),
  missed: shown<ListedDeliveries['missed'][number]>()(missedReply),
  page: shown<ListedDeliveries['pagination']>()(pageReply),
  balances: shown<Balances>()(balancesReply),
  changes: shown<BalanceChanges['data'][number]>()(historyReply),
  transaction: shown<TransactionAnswer>()(parsedReply),
  words: shown<WordsPage['data'][number]>()(parsedReply),
  interface: shown<KnownInterface>()(knownReply),
  upload: shown<UploadedInterface>()(uploadReply),
};

/** The schema and all schemas in it. */
function partsOf(schema: unknown, found = new Set<unknown>()): ReadonlySet<unknown> {
  if (typeof schema !== 'object' || schema === null || found.has(schema)) return found;
  found.add(schema);
  for (const part of Object.values(schema)) partsOf(part, found);
  return found;
}

test('each answer that the pages show is one that a route of the daemon answers', async () => {
  const io = {
    env: { PARHELION_CONFIG: '', PARHELION_COMPRESSION__CNFT__TREES: 'all' },
    cwd: findProjectRoot(),
    out: () => {},
    err: () => {},
    isTerminal: false,
    program: 'parhelion',
  };
  const { merged } = await assembleOffline(await loadCliConfig({}, io));
  const answered = partsOf(merged.routes.map(({ replies }) => replies));
  const unknown = Object.keys(SHOWN).filter((name) => !answered.has(SHOWN[name]));
  assert.deepEqual(unknown, []);
});
