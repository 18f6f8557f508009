import type { Command } from '../../../src/kernel/plugin.ts';
import type { KeyLimits } from '../projects/keys.ts';
import { type CommandParts, JSON_OPTION, listOption } from './common.ts';
import { keyView } from './keys.ts';

/** Commands that replace a list of a key. */
export function keyLimitCommands(parts: CommandParts): Command[] {
  return [
    limitCommand(parts, {
      path: ['keys', 'allow-ip'],
      summary: 'let only these addresses and networks use a key; a running daemon notices within a second',
      flag: { flags: '--ips <list>', description: '10.0.0.0/8,fd00::/8,192.0.2.7; replaces the list' },
      option: 'ips',
      list: 'cidrs',
    }),
    limitCommand(parts, {
      path: ['keys', 'allow-origin'],
      summary: 'let only web pages of these origins use a key; a running daemon notices within a second',
      flag: { flags: '--origins <list>', description: 'https://app.example,https://*.app.example; replaces the list' },
      option: 'origins',
      list: 'origins',
    }),
  ];
}

interface LimitCommand {
  readonly path: readonly string[];
  readonly summary: string;
  readonly flag: Command['options'][number];
  readonly option: string;
  readonly list: keyof KeyLimits;
}

function limitCommand({ keys, clock }: CommandParts, { path, summary, flag, option, list }: LimitCommand): Command {
  return {
    path,
    summary,
    options: [
      { flags: '--id <id>', description: 'id of the key, from `keys list`', required: true },
      flag,
      { flags: '--any', description: 'removes the list: no limit' },
      JSON_OPTION,
    ],
    async run(options, io) {
      const values = listOption(options, option);
      const change: KeyLimits =
        options['any'] === true ? { [list]: null } : values === undefined ? {} : { [list]: values };
      const row = await io.store.write((tx) => keys.limit(tx, String(options['id']), change));
      const view = keyView(row, clock.now());
      if (options['json'] === true) {
        io.json(view);
        return;
      }
      const allowed = list === 'cidrs' ? view.ips : view.origins;
      io.line(`key ${view.id} may be used from ${allowed === null ? 'everywhere' : allowed.join(', ')}`);
    },
  };
}
