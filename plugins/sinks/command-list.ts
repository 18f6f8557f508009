import type { CommandDescription } from '../../src/plugin/host.ts';

const SINK = { flags: '--sink <name>', description: 'name of the sink in the configuration', required: true };
const JSON_OPTION = { flags: '--json', description: 'print one JSON document' };

/** `commands.ts` runs them. A running daemon does the work; it notices within a second. */
export const SINK_COMMANDS = {
  list: {
    path: ['sinks', 'list'],
    summary: 'list sinks with the slots that their targets have, and why one does not go on',
    options: [JSON_OPTION],
  },
  pause: {
    path: ['sinks', 'pause'],
    summary: 'stop writing a sink; the ledger keeps what it has not taken, as long as there is room',
    options: [SINK],
  },
  resume: { path: ['sinks', 'resume'], summary: 'write a paused sink again, from where it stands', options: [SINK] },
  backfill: {
    path: ['sinks', 'backfill'],
    summary: 'write older slots to a sink, from the ledger, its archive or upstreams, and wait until that is done',
    options: [
      SINK,
      { flags: '--from <slot>', description: 'first slot', required: true },
      { flags: '--to <slot>', description: 'last slot; it must be older than what the sink has', required: true },
      { flags: '--no-wait', description: 'do not wait; `sinks list` shows how far it is' },
      JSON_OPTION,
    ],
  },
  verify: {
    path: ['sinks', 'verify'],
    summary:
      'compare the rows of a target with the blocks they come from, by count and hash; exit code 70 if they differ',
    options: [
      SINK,
      { flags: '--from <slot>', description: 'first slot; default: the first one of the sink' },
      { flags: '--to <slot>', description: 'last slot; default: the last one of the sink' },
      JSON_OPTION,
    ],
  },
} as const satisfies Record<string, CommandDescription>;
