import type { CommandDescription } from '../../src/plugin/host.ts';
import { REPLAYED_HOURS, RESEND_STATUSES, WEBHOOK_TYPES } from './model.ts';

/** Port of `webhooks listen`. */
export const LISTEN_PORT = 9_900;
/** Earlier deliveries that `webhooks tail` shows. */
export const DEFAULT_LINES = 10;

const ID_OPTION = { flags: '--id <id>', description: 'id of the webhook, see `webhooks list`', required: true };
const JSON_OPTION = { flags: '--json', description: 'print JSON: one document, or one event per line' };

/** Commands for webhooks of all projects; `commands.ts` runs them. */
export const WEBHOOK_COMMANDS = {
  create: {
    path: ['webhooks', 'create'],
    summary: 'create a webhook; its signing secret is shown only once; a running daemon notices within a second',
    options: [
      { flags: '--project <id>', description: 'project the webhook belongs to', required: true },
      { flags: '--url <address>', description: 'where events are posted', required: true },
      { flags: '--addresses <list>', description: 'watched addresses, separated by commas' },
      { flags: '--type <type>', description: `${WEBHOOK_TYPES.join(', ')}; default: enhanced` },
      { flags: '--transaction-types <list>', description: 'only transactions of these types; default: all' },
      { flags: '--parsed-filter <json>', description: 'which transactions a webhook of type parsed gets' },
      { flags: '--auth-header <text>', description: 'sent as Authorization with each request' },
      JSON_OPTION,
    ],
  },
  list: {
    path: ['webhooks', 'list'],
    summary: 'list webhooks with their health and the hosts of their receivers',
    options: [{ flags: '--project <id>', description: 'only webhooks of this project' }, JSON_OPTION],
  },
  show: {
    path: ['webhooks', 'show'],
    summary: 'show a webhook, its health of 28 days and its last deliveries',
    options: [ID_OPTION, JSON_OPTION],
  },
  test: {
    path: ['webhooks', 'test'],
    summary: 'send a test event to a webhook and print the response',
    options: [ID_OPTION, JSON_OPTION],
  },
  tail: {
    path: ['webhooks', 'tail'],
    summary: 'show new and changed deliveries of a webhook until interrupted',
    options: [
      ID_OPTION,
      { flags: '--lines <number>', description: `number of earlier deliveries; default ${DEFAULT_LINES}` },
      { flags: '--count <number>', description: 'exit after this many lines' },
      JSON_OPTION,
    ],
  },
  resend: {
    path: ['webhooks', 'resend'],
    summary: 'send waiting deliveries now and failed ones again: one, or all of a webhook',
    options: [
      ID_OPTION,
      { flags: '--delivery <id>', description: 'only this delivery, see `webhooks show`; also a delivered one' },
      { flags: '--status <status>', description: `${RESEND_STATUSES.join(', ')}; default: ${RESEND_STATUSES[0]}` },
      { flags: '--since <time>', description: 'only those created since this time: unix seconds or an ISO 8601 date' },
      { flags: '--until <time>', description: 'only those created until this time; default now' },
      JSON_OPTION,
    ],
  },
  replay: {
    path: ['webhooks', 'replay'],
    summary: 'read slots again for a webhook and create the deliveries that are missing',
    options: [
      ID_OPTION,
      {
        flags: '--since <time>',
        description: 'another name for `webhooks resend --since`, for failed and discarded ones',
      },
      { flags: '--until <time>', description: 'with --since; default now' },
      {
        flags: '--from <slot>',
        description: `first slot to replay, at most ${REPLAYED_HOURS} hours of the chain at once`,
      },
      { flags: '--to <slot>', description: 'last slot to replay' },
      { flags: '--force', description: 'with slots: also send existing deliveries again' },
      JSON_OPTION,
    ],
  },
  listen: {
    path: ['webhooks', 'listen'],
    summary: 'run a local receiver that prints requests and verifies their signatures until interrupted',
    options: [
      { flags: '--host <address>', description: 'address to listen on; default 127.0.0.1' },
      { flags: '--port <number>', description: `port; default ${LISTEN_PORT}; 0 = any free one` },
      { flags: '--secret <whsec>', description: 'verify with this secret; default: those of the store' },
      { flags: '--forward <url>', description: 'forward each request and return the response' },
      { flags: '--count <number>', description: 'exit after this many requests' },
      JSON_OPTION,
    ],
  },
  delete: {
    path: ['webhooks', 'delete'],
    summary: 'delete a webhook with its secrets, and drop its waiting deliveries',
    options: [ID_OPTION, JSON_OPTION],
  },
} satisfies Record<string, CommandDescription>;
