import { EXIT } from '../../src/lib/coded-error.ts';
import { tableLines } from '../../src/lib/table-lines.ts';
import { type Clock, CodedError, type Command, type CommandIo } from '../../src/plugin/plugin.ts';
import type { ShadowReport } from '../../src/ports/shadow-report.ts';
import { SHADOW_COMMANDS } from './command-list.ts';
import { SHADOW_ERRORS } from './config.ts';
import { markdownOf, readReport, summaryOf } from './report.ts';

const DEFAULT_DAYS = 7;
const DEFAULT_LIMIT = 50;

export function reportCommand(clock: Clock): Command {
  return {
    ...SHADOW_COMMANDS.report,
    async run(options, io) {
      const threshold = shareOption(options['threshold']);
      const report = await readReport(io.store.read, {
        now: clock.now(),
        days: integerOption(options['days'], 'days', { most: 40 }) ?? DEFAULT_DAYS,
        limit: integerOption(options['limit'], 'limit', { most: 2_000 }) ?? DEFAULT_LIMIT,
      });
      if (options['json'] === true) io.json(report);
      else if (options['markdown'] === true) io.line(markdownOf(report));
      else show(report, io);
      if (threshold !== null && report.differentShare > threshold)
        throw new CodedError(
          'SHADOW_THRESHOLD',
          `${SHADOW_ERRORS.SHADOW_THRESHOLD}: ${report.differentShare} > ${threshold}`,
          { exitCode: EXIT.negative },
        );
    },
  };
}

function show(report: ShadowReport, io: CommandIo): void {
  io.line(summaryOf(report));
  if (report.groups.length === 0) return;
  const rows = report.groups.map(({ method, path, kind, count, reason }) => [
    method,
    path === '' ? '(whole answer)' : path,
    kind,
    String(count),
    reason ?? '-',
  ]);
  for (const line of tableLines(['METHOD', 'MEMBER', 'KIND', 'ANSWERS', 'EXPLANATION'], rows)) io.line(line);
}

function integerOption(value: unknown, name: string, { most }: { readonly most: number }): number | null {
  if (value === undefined) return null;
  const number = Number(value);
  if (!/^\d+$/.test(String(value)) || number < 1 || number > most)
    throw new CodedError('SHADOW_USAGE', `--${name} must be an integer from 1 to ${most}`, { exitCode: EXIT.usage });
  return number;
}

function shareOption(value: unknown): number | null {
  if (value === undefined) return null;
  const number = Number(value);
  if (!/^\d*\.?\d+$/.test(String(value)) || number > 1)
    throw new CodedError('SHADOW_USAGE', '--threshold must be a number from 0 to 1', { exitCode: EXIT.usage });
  return number;
}
