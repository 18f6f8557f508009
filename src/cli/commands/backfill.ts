import { createLog } from '../../adapters/log.ts';
import { abandonGap, gapView, readGaps } from '../../chain/gaps.ts';

import { assemble } from '../../daemon/assemble.ts';
import { CodedError } from '../../lib/coded-error.ts';
import { EXIT } from '../../runtime/errors.ts';
import { type BackfillRequest, gapLine, readRequest, runBackfill, type Work } from '../backfill.ts';
import type { RunCommand } from '../command.ts';
import { chainSetups, composeParts } from '../compose.ts';
import { loadCliConfig } from '../load-config.ts';
import { needStoreDir, openExistingStore } from '../offline.ts';
import { readVersion } from '../package-files.ts';

export const run: RunCommand = async (values, io) => {
  const request = readRequest(values);
  const config = await loadCliConfig(values, io);
  const dataDir = config.core.dataDir;
  const dir = needStoreDir(config, dataDir);
  const parts = composeParts(config.core, createLog({ level: 'silent', format: 'json' }));
  const assembly = await assemble({
    ...{ config, parts, chains: chainSetups(config.core, null), version: readVersion() },
    roles: new Set(['indexer']),
  });
  const store = await openExistingStore(assembly, dir);
  try {
    return await answer({ assembly, parts, store, dataDir, io }, request);
  } finally {
    await store.close();
    await parts.bus.close();
  }
};

async function answer(work: Work, request: BackfillRequest): Promise<number> {
  if (request.kind === 'gaps' || request.kind === 'range') return await runBackfill(work, request);
  const { store, io } = work;
  if (request.kind === 'abandon') {
    if (!(await store.write((tx) => abandonGap(tx, request.id))))
      throw new CodedError('CONFIG_INVALID', `no open gap ${request.id}`, { exitCode: EXIT.usage });
    io.out(request.json ? JSON.stringify({ abandoned: request.id }) : `gap ${request.id} is abandoned`);
    return EXIT.ok;
  }
  const chain = request.chain === null ? {} : { chain: request.chain };
  const gaps = await readGaps(store.read, { ...chain, limit: 1_000 });
  if (request.json) io.out(JSON.stringify(gaps.map(gapView), null, 2));
  else if (gaps.length === 0) io.out('no gaps');
  else for (const gap of gaps) io.out(gapLine(gap));
  return EXIT.ok;
}
