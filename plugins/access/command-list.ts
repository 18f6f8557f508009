import type { CommandDescription } from '../../src/plugin/host.ts';
import { PERMISSIONS } from './config.ts';

const JSON_OPTION = { flags: '--json', description: 'one JSON document' };
const PROJECT_ID = { flags: '--id <id>', description: 'id of the project, from `projects list`', required: true };
const WALLET = { flags: '--wallet <address>', description: 'wallet of a member, base58', required: true };
const KEY_ID = { flags: '--id <id>', description: 'id of the key, from `keys list`', required: true };
const ANY_OPTION = { flags: '--any', description: 'removes the list: no limit' };

/** `commands.ts` runs them. */
export const PROJECT_COMMANDS = {
  create: {
    path: ['projects', 'create'],
    summary: 'create a project',
    options: [
      { flags: '--name <text>', description: 'display name', required: true },
      { flags: '--plan <name>', description: 'a plan of the plans file; default: access.defaultPlan' },
      { flags: '--wallet <address>', description: 'owner wallet, base58' },
      {
        flags: '--billing-day <day>',
        description: 'day of the month on which a credit cycle starts, 1 to 31; default: today',
      },
      JSON_OPTION,
    ],
  },
  list: {
    path: ['projects', 'list'],
    summary: 'list the projects and what they used in the last seven days',
    options: [{ flags: '--all', description: 'also deleted projects, of which only the usage remains' }, JSON_OPTION],
  },
  show: {
    path: ['projects', 'show'],
    summary: 'show a project with its limits',
    options: [PROJECT_ID, JSON_OPTION],
  },
  setPlan: {
    path: ['projects', 'set-plan'],
    summary: 'change the plan of a project, or override values of it; a running daemon notices within a second',
    options: [
      PROJECT_ID,
      { flags: '--plan <name>', description: 'a plan of the plans file' },
      {
        flags: '--override <json>',
        description:
          'all values that override the plan: {"ratePerSecond":{"rpc":20},"overageCredits":5000}; {} for none',
      },
      { flags: '--admin-api <on|off>', description: 'whether the usage endpoint answers' },
      JSON_OPTION,
    ],
  },
  grant: {
    path: ['projects', 'grant'],
    summary: 'add prepaid credits to a project; they are spent after those of the plan and never expire',
    options: [
      PROJECT_ID,
      { flags: '--credits <number>', description: 'number of credits', required: true },
      JSON_OPTION,
    ],
  },
  rename: {
    path: ['projects', 'rename'],
    summary: 'change the display name of a project',
    options: [PROJECT_ID, { flags: '--name <text>', description: 'the new name', required: true }, JSON_OPTION],
  },
  disable: {
    path: ['projects', 'disable'],
    summary:
      'make the keys of a project stop working and its deliveries wait, and keep its data; a running daemon notices within a second',
    options: [PROJECT_ID, JSON_OPTION],
  },
  enable: {
    path: ['projects', 'enable'],
    summary: 'enable a disabled project',
    options: [PROJECT_ID, JSON_OPTION],
  },
  delete: {
    path: ['projects', 'delete'],
    summary:
      'delete a disabled project with its keys, wallets, webhooks and their waiting deliveries; its usage remains',
    options: [PROJECT_ID, JSON_OPTION],
    concernsAllPlugins: true,
  },
  addWallet: {
    path: ['projects', 'add-wallet'],
    summary: 'make a wallet a member of a project; keys can then be created for it (`keys create --wallet`)',
    options: [PROJECT_ID, WALLET, JSON_OPTION],
  },
  removeWallet: {
    path: ['projects', 'remove-wallet'],
    summary: 'remove a wallet from a project and revoke its keys; a running daemon notices within a second',
    options: [PROJECT_ID, WALLET, JSON_OPTION],
  },
  usage: {
    path: ['projects', 'usage'],
    summary: 'show the usage of a project in its credit cycle (written within a second)',
    options: [PROJECT_ID, JSON_OPTION],
  },
} satisfies Record<string, CommandDescription>;

export const KEY_COMMANDS = {
  create: {
    path: ['keys', 'create'],
    summary: 'create a key; it is shown only once',
    options: [
      { flags: '--project <id>', description: 'project the key belongs to', required: true },
      { flags: '--name <text>', description: 'display name' },
      { flags: '--expires <when>', description: 'days such as 90d, or a date (UTC); default: never' },
      {
        flags: '--permissions <list>',
        description: `permissions of the key: ${PERMISSIONS.join(',')}; default: all`,
      },
      { flags: '--wallet <address>', description: 'member who uses the key (projects add-wallet); default: the owner' },
      { flags: '--ips <list>', description: 'addresses and networks that may use the key; default: all' },
      { flags: '--origins <list>', description: 'origins of web pages that may use the key; default: any caller' },
      JSON_OPTION,
    ],
  },
  list: {
    path: ['keys', 'list'],
    summary: 'list the keys with their first characters',
    options: [{ flags: '--project <id>', description: 'only keys of this project' }, JSON_OPTION],
  },
  revoke: {
    path: ['keys', 'revoke'],
    summary: 'revoke a key; a running daemon notices within a second',
    options: [KEY_ID, JSON_OPTION],
  },
  rotate: {
    path: ['keys', 'rotate'],
    summary:
      'replace a key: the new key has the same limits and is shown only once; the old one keeps working for the overlap',
    options: [
      KEY_ID,
      { flags: '--overlap <time>', description: 'how long the old key keeps working: 30m, 24h, 7d, 0; default: 24h' },
      JSON_OPTION,
    ],
  },
  allowIp: {
    path: ['keys', 'allow-ip'],
    summary: 'limit a key to addresses and networks; a running daemon notices within a second',
    options: [
      KEY_ID,
      { flags: '--ips <list>', description: '10.0.0.0/8,fd00::/8,192.0.2.7; replaces the list' },
      ANY_OPTION,
      JSON_OPTION,
    ],
  },
  allowOrigin: {
    path: ['keys', 'allow-origin'],
    summary: 'limit a key to web pages of these origins; a running daemon notices within a second',
    options: [
      KEY_ID,
      { flags: '--origins <list>', description: 'https://app.example,https://*.app.example; replaces the list' },
      ANY_OPTION,
      JSON_OPTION,
    ],
  },
} satisfies Record<string, CommandDescription>;
