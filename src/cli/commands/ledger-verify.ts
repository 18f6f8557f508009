import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { verifyLedger } from '../../ledger/index.ts';
import { CodedError } from '../../lib/coded-error.ts';
import { EXIT } from '../../runtime/errors.ts';
import type { RunCommand } from '../command.ts';
import { loadCliConfig } from '../load-config.ts';

export const run: RunCommand = async (values, io) => {
  const { core } = await loadCliConfig(values, io);
  const dir = join(core.dataDir, 'ledger', String(values['chain'] ?? 'main'));
  if (!existsSync(dir))
    throw new CodedError('LEDGER_MISSING', `there is no ledger in ${dir}`, { exitCode: EXIT.config });
  const check = await verifyLedger(dir);
  if (values['json'] === true) io.out(JSON.stringify(check));
  else {
    for (const { path, place, slot } of check.faults)
      io.out(`damaged: ${slot === null ? 'unreadable bytes' : `block ${slot}`} at byte ${place} of ${path}`);
    const { files, blocks, bytes, faults } = check;
    io.out(`${blocks} sound blocks, ${faults.length} damaged places, ${bytes} bytes in ${files} files`);
  }
  return check.faults.length === 0 ? EXIT.ok : EXIT.temporary;
};
