import { resolve } from 'node:path';
import { EXIT } from '../../kernel/errors.ts';
import { messageOf } from '../../lib/coded-error.ts';
import type { RunCommand } from '../command.ts';
import { loadCliConfig } from '../load-config.ts';
import { needRunFile } from '../run-file.ts';

const TIMEOUT_MS = 5_000;

export const run: RunCommand = async (values, io) => {
  const config = await loadCliConfig(values, io);
  const { admin } = needRunFile(resolve(io.cwd, config.core.dataDir));
  const path = values['ready'] === true ? '/readyz' : '/healthz';
  try {
    const { status } = await fetch(admin + path, { signal: AbortSignal.timeout(TIMEOUT_MS) });
    if (status === 200) return EXIT.ok;
    io.err(`parhelion: ${path} answered ${status}`);
  } catch (error) {
    io.err(`parhelion: ${path} did not answer: ${messageOf(error)}`);
  }
  return EXIT.temporary;
};
