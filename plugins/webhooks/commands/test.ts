import { CodedError, type Command } from '../../../src/kernel/plugin.ts';
import { sendTestEvent } from '../delivery/test-event.ts';
import { hookOf, ID_OPTION, JSON_OPTION, type WebhookCommandParts } from './common.ts';

const EXIT_TEMPORARY = 75;

export function testCommand({ context, send, bodies }: WebhookCommandParts): Command {
  return {
    path: ['webhooks', 'test'],
    summary: 'send one made-up event to a webhook and say what came back',
    options: [ID_OPTION, JSON_OPTION],
    async run(options, io) {
      const hook = await hookOf(io, options);
      const { clock, random } = context;
      const parts = { store: io.store, clock, random, send, builder: bodies };
      const result = await sendTestEvent(parts, hook, new AbortController().signal);
      if (options['json'] === true) io.json(result);
      const { delivered, statusCode, durationMs, failure } = result;
      const answer = statusCode === null ? (failure ?? 'no answer') : `HTTP ${statusCode}`;
      if (!delivered)
        throw new CodedError('WEBHOOKS_TEST_FAILED', `the receiver did not take it: ${answer} after ${durationMs} ms`, {
          exitCode: EXIT_TEMPORARY,
        });
      if (options['json'] !== true) io.line(`delivered: ${answer} after ${durationMs} ms`);
    },
  };
}
