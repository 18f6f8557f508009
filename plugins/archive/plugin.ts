import type { HostContext } from '../../src/plugin/host.ts';
import type { ChainId } from '../../src/ports/chain.ts';
import { type ArchiveReader, archiveReaders, kernelArchiveEngine, kernelLedgerHolds } from '../../src/ports/ledger.ts';
import { createArchiveReader } from './reader.ts';
import { type ArchiveWriter, createArchiveMeter, startArchiveWriter } from './writer.ts';

const CHAINS: readonly ChainId[] = ['main', 'devnet'];

/** Every thread reads the archives; the one that writes a ledger also writes its archive. */
export function provision(ctx: HostContext): void {
  const engineOf = (chain: ChainId) => ctx.use(kernelArchiveEngine)?.(chain) ?? null;
  const readers = new Map<ChainId, ArchiveReader>();
  ctx.provide(archiveReaders, (chain) => readers.get(chain) ?? null);
  if (ctx.core.ledger.archive === null) return;
  const chains = CHAINS.filter((chain) => ctx.chain(chain) !== null);
  const writers = ctx.roles.has('indexer') ? chains.map((chain) => writerOf(ctx, chain)) : [];
  // The ledger keeps the blocks meanwhile.
  if (writers.length > 0) ctx.check('archive', async () => statusOf(writers), { required: false });
  const stopWriters = () => Promise.all(writers.map((writer) => writer.stop()));
  ctx.onStart(() => {
    for (const chain of chains) {
      const engine = engineOf(chain);
      if (engine !== null) readers.set(chain, createArchiveReader(engine, ctx.clock));
    }
  });
  // The ledger is closed after this, and before the stop.
  ctx.onDrain(async () => {
    await stopWriters();
  });
  ctx.onStop(async () => {
    await stopWriters();
    await Promise.all(chains.map((chain) => engineOf(chain)?.close()));
  });
}

function statusOf(writers: readonly LateWriter[]): { readonly ok: boolean; readonly detail: string } {
  const each = writers.map(({ chain, status }) => ({ chain, ...status() }));
  return {
    ok: each.every(({ ok }) => ok),
    detail: each.map(({ chain, detail }) => `${chain}: ${detail}`).join('; '),
  };
}

interface LateWriter extends Pick<ArchiveWriter, 'status' | 'stop'> {
  readonly chain: ChainId;
}

/** A writer that begins once this thread writes the ledger. */
function writerOf({ log, clock, metrics, use }: HostContext, chain: ChainId): LateWriter {
  const meter = createArchiveMeter(metrics, chain);
  let writer: ArchiveWriter | null = null;
  const holds = use(kernelLedgerHolds);
  holds?.hold(chain, () => writer?.slot ?? -1);
  holds?.opened(chain, (ledger) => {
    const engine = use(kernelArchiveEngine)?.(chain) ?? null;
    if (engine !== null) writer ??= startArchiveWriter({ engine, ledger, clock, log, meter });
  });
  return {
    chain,
    status: () => writer?.status() ?? { ok: true, detail: 'this process does not write the ledger' },
    stop: async () => await writer?.stop(),
  };
}
