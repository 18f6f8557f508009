import { type Command, RequestError } from '../../../src/kernel/plugin.ts';
import { usage, type WebhookCommandParts } from './common.ts';
import { listCommand } from './list.ts';
import { listenCommand } from './listen.ts';
import { replayCommand } from './replay.ts';
import { showCommand } from './show.ts';
import { tailCommand } from './tail.ts';
import { testCommand } from './test.ts';

/** What an operator does with webhooks of all projects. */
export function webhookCommands(parts: WebhookCommandParts): readonly Command[] {
  return [
    listCommand(),
    showCommand(parts),
    testCommand(parts),
    tailCommand(parts),
    replayCommand(parts),
    listenCommand(parts),
  ].map(withRefusals);
}

/** What a route would refuse, a command refuses in the same words. */
const withRefusals = (command: Command): Command => ({
  ...command,
  async run(options, io) {
    try {
      await command.run(options, io);
    } catch (error) {
      throw error instanceof RequestError ? usage(error.message) : error;
    }
  },
});
