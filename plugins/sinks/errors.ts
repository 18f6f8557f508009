import { EXIT } from '../../src/lib/coded-error.ts';
import { CodedError } from '../../src/plugin/plugin.ts';

/** Coded errors of this plugin. @public */
export const SINK_ERRORS = {
  SINKS_OTHER_CHAIN: 'the target has rows of another chain; use another target',
  SINKS_REFUSED: 'the target cannot take these rows: it has those of a newer version, or its settings are wrong',
  SINKS_UNREACHABLE: 'the target does not answer, or a write to it failed; it is tried again',
  SINKS_HOLE:
    'slots are neither in the ledger nor in the archive, and no upstream has them now; the sink waits for them',
  SINKS_ACCOUNTS:
    'no upstream has the state of the accounts of `sinks.accounts` at a final block; the sink waits for it',
  SINKS_CONFIG: 'the section `sinks` contradicts itself, or names a kind of target that no plugin has',
  SINKS_DIFFERS: 'rows of a target differ from the blocks that they come from, or it has a hole',
  SINKS_USAGE: 'a command for sinks names none of the configured ones, or slots that it cannot take',
} as const;

export const targetMoved = (name: string): CodedError =>
  new CodedError('SINKS_MOVED', `the position of sink ${name} is not where it was: another writer was faster`, {
    retryable: true,
  });

export const refused = (message: string, cause?: unknown): CodedError =>
  new CodedError('SINKS_REFUSED', message, { cause });

export const unreachable = (message: string, cause: unknown): CodedError =>
  new CodedError('SINKS_UNREACHABLE', message, { cause, retryable: true });

export const usage = (message: string): CodedError => new CodedError('SINKS_USAGE', message, { exitCode: EXIT.usage });

export const misconfigured = (message: string, path: string): CodedError =>
  new CodedError('SINKS_CONFIG', message, { exitCode: EXIT.config, facts: { path } });

export const otherChain = (slot: number): CodedError =>
  new CodedError('SINKS_OTHER_CHAIN', `block ${slot} does not follow what the target has: it is of another chain`, {
    facts: { slot },
  });
