import type { PluginContext } from '../../src/plugin/plugin.ts';
import { offChainDocuments, type PictureOptions, tokenFacts, tokenNames } from '../../src/ports/tokens.ts';
import { createSemaphore } from '../../src/runtime/semaphore.ts';
import { metadataAddress } from '../../src/solana/addresses.ts';
import type { TokenMetadataConfig } from './config.ts';
import { createDocuments, fetchDocument, fetchPicture } from './documents.ts';
import { createFacts, createTokenNames } from './facts.ts';
import { createAccountSource, createRecordLoader, readAccountBatch } from './records.ts';
import { createAnswers, tokenMetadataRoute } from './route.ts';
import { createDocumentStore, createMetadataUpkeep, createMintStore } from './store.ts';
import { createTokenList } from './token-list.ts';
import { createChangedSlots, createChanges, createMintIndex, createQuietLook, createWatchProcessor } from './watch.ts';

type Context = PluginContext<TokenMetadataConfig>;

/** Accounts, documents and finished answers share the memory. */
const PARTS_OF_MEMORY = 3;

/** Puts the parts of the plugin together. */
export function provision(ctx: Context): void {
  const { config, clock, log, random, store } = ctx;
  const chain = ctx.chain('main');
  const cacheBytes = Math.ceil(config.cacheBytes / PARTS_OF_MEMORY);
  const source = createSource(ctx, cacheBytes);
  const load = source === null ? null : createRecordLoader(source);
  const documentStore = createDocumentStore({ store, clock, log, maxKept: config.offChain.maxKept });
  const mintStore = createMintStore({ store, clock, log, maxMints: config.maxMints });
  const { documents, picture, close } = openDocuments(ctx, documentStore, cacheBytes);
  const list = createTokenList({ config: config.tokenList, chain, log });
  const answers = createAnswers(clock, cacheBytes);
  const changed = createChangedSlots();
  const facts = createFacts({
    load,
    store: mintStore,
    documents,
    list,
    clock,
    changed,
    isWatched: config.watch,
    ttlMs: config.factsTtlMs,
    config,
    maxMints: config.maxMintsPerLookUp,
  });
  const names = createTokenNames({ facts, clock });
  const upkeep = createMetadataUpkeep({
    documents: documentStore,
    mints: mintStore,
    factsTtlMs: config.factsTtlMs,
    clock,
    log,
  });
  const onChanged = (mints: readonly string[], slot: number): void => {
    source?.drop(
      mints.flatMap((mint) => load?.keysOf(mint) ?? [mint, metadataAddress(mint)]),
      slot,
    );
    for (const mint of mints) changed.note(mint, slot);
    facts.drop(mints);
    answers.drop(mints);
  };
  const changes = chain === null || !config.watch ? null : createChanges({ chain, store, clock, log, onChanged });
  const slotMs = () => chain?.status().slotMs ?? null;
  const index = createMintIndex({ clock, random, ttlMs: config.factsTtlMs, maxMints: config.maxMints, slotMs });
  const quiet = chain === null || !config.watch ? null : createQuietLook({ mints: index, chain, store, clock, log });
  ctx.http.route(tokenMetadataRoute({ load: load?.load ?? null, documents, list, facts, answers, changed, config }));
  ctx.provide(tokenFacts, facts);
  ctx.provide(tokenNames, names);
  ctx.provide(offChainDocuments, {
    async read(uris, { waitMs, group }) {
      const wanted = [...new Set(uris)].filter((uri) => uri !== '');
      const answers = await documents.get(wanted, { waitMs, fresh: false, group });
      return new Map(
        [...answers].flatMap(([uri, { document }]) => (document === null ? [] : [[uri, document.original] as const])),
      );
    },
    peek(uri) {
      const answer = documents.peek(uri);
      return answer === undefined ? undefined : (answer.document?.original ?? null);
    },
    picture,
  });
  if (config.watch) ctx.blocks.on(createWatchProcessor(index, slotMs));
  ctx.onStart(async () => {
    await changes?.start();
    if (ctx.roles.has('deliverer')) upkeep.start();
    if (ctx.roles.has('indexer')) quiet?.start();
  });
  ctx.onStop(async () => {
    names.stop();
    upkeep.stop();
    changes?.stop();
    quiet?.stop();
    await close();
    await documentStore.stop();
    await mintStore.stop();
  });
}

/** Null where no upstream is configured. */
function createSource({ config, clock, metrics, chain }: Context, cacheBytes: number) {
  const reader = chain('main');
  if (reader === null) return null;
  const calls = metrics.counter('account_calls_total', 'Upstream calls for accounts of tokens');
  const accounts = metrics.counter('accounts_total', 'Accounts read for tokens');
  return createAccountSource({
    read: (keys, timeoutMs) => readAccountBatch(reader, keys, timeoutMs),
    clock,
    ttlMs: config.accountTtlMs,
    config,
    concurrency: config.upstreamConcurrency,
    maxWaiting: config.maxWaitingAccounts,
    cacheBytes,
    onCall(keys) {
      calls.add();
      accounts.add(keys);
    },
  });
}

/** Bounds the memory: each may have `maxPictureBytes`. */
const PICTURES = { concurrency: 12, perGroup: 6, maxWaiting: 500 } as const;

function openDocuments(ctx: Context, store: ReturnType<typeof createDocumentStore>, cacheBytes: number) {
  const { clock, metrics } = ctx;
  const config = ctx.config.offChain;
  const shared = { allowPorts: null, caFile: null, maxConnections: config.concurrencyPerHost };
  const openClients = () => ({
    gatewayClient: ctx.outbound.open({
      ...shared,
      // Wherever the operator has them, but for the metadata of clouds.
      allowCidrs: ['0.0.0.0/0', '::/0'],
      allowHttp: true,
      onlyOrigins: [...config.ipfsGateways, ...config.arweaveGateways].map((gateway) => new URL(gateway).origin),
    }),
    client: ctx.outbound.open({
      ...shared,
      allowCidrs: config.allowCidrs,
      allowHttp: config.allowHttp,
      section: `${ctx.id}.offChain`,
    }),
  });
  const parts = { ...openClients(), clock, config };
  // Pictures take long: documents do not wait for their connections.
  const pictureParts = { ...parts, ...openClients() };
  const fetched = metrics.counter('documents_total', 'Fetched documents, by outcome', ['outcome']);
  const pictures = createSemaphore(PICTURES);
  const documents = createDocuments({
    fetch: (uri) => fetchDocument(uri, parts),
    store,
    clock,
    config,
    cacheBytes,
    onFetched: (error) => fetched.with(error === '' ? 'ok' : error.toLowerCase()).add(),
  });
  metrics.observe('documents_waiting', 'Documents waiting to be fetched', documents.waiting);
  return {
    documents,
    async picture(uri: string, { group, signal }: PictureOptions) {
      try {
        return await pictures.run(() => fetchPicture(uri, signal, pictureParts), { group, signal });
      } catch {
        // Too many wait, or the caller has gone.
        return null;
      }
    },
    async close() {
      const clients = [parts, pictureParts].flatMap(({ client, gatewayClient }) => [client, gatewayClient]);
      await Promise.all(clients.map((client) => client.close()));
    },
  };
}
