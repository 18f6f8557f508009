/** Questions of people, and the calls of tools that answer them: each step has the facts that the answer must contain. */
import assert from 'node:assert/strict';
import { type Bed, MEMO_PROGRAM } from './harness.ts';

interface Found {
  readonly summary: string;
  readonly data: Readonly<Record<string, unknown>>;
  /** `data` as JSON. */
  readonly text: string;
}

interface Step {
  readonly tool: string;
  input(bed: Bed): object;
  finds(found: Found, bed: Bed): void;
}

interface Task {
  readonly question: string;
  readonly steps: readonly Step[];
}

const SYSTEM = '11111111111111111111111111111111';
const TOKEN_PROGRAM = 'TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA';

const has =
  (...wanted: ((bed: Bed) => string)[]) =>
  ({ text }: Found, bed: Bed) => {
    for (const want of wanted) assert.ok(text.includes(want(bed)), `${want(bed)} is not in ${text.slice(0, 1_500)}`);
  };
const says =
  (pattern: RegExp) =>
  ({ summary }: Found) =>
    assert.match(summary, pattern);
const both =
  (...checks: ((found: Found, bed: Bed) => void)[]) =>
  (found: Found, bed: Bed) => {
    for (const check of checks) check(found, bed);
  };
const items =
  (count: number) =>
  ({ data, text }: Found) =>
    assert.equal((data['items'] as readonly unknown[]).length, count, text.slice(0, 1_500));

const one = (question: string, tool: string, input: Step['input'], finds: Step['finds']): Task => ({
  question,
  steps: [{ tool, input, finds }],
});

export const TASKS: readonly Task[] = [
  {
    question: 'Why did this deposit not arrive? It failed',
    steps: [
      {
        tool: 'transaction',
        input: ({ failed }) => ({ signature: failed }),
        finds: both(
          says(/^Failed in slot \d+/),
          has(() => 'error'),
        ),
      },
      {
        tool: 'history',
        input: ({ wallet }) => ({ address: wallet, direction: 'in' }),
        finds: ({ text }, { failed }) => assert.equal(text.includes(failed), false),
      },
    ],
  },
  {
    question: 'Why did this deposit not arrive? It was never sent',
    steps: [
      {
        tool: 'transaction',
        input: ({ unsent }) => ({ signature: unsent }),
        finds: both(says(/No upstream knows/), ({ data }) => assert.equal(data['found'], false)),
      },
    ],
  },
  {
    question: 'Did my 0.5 SOL arrive, and in which transaction?',
    steps: [
      {
        tool: 'history',
        input: ({ wallet }) => ({ address: wallet, view: 'transfers', direction: 'in' }),
        finds: has(
          ({ secondDeposit }) => secondDeposit,
          () => '500000000',
        ),
      },
      {
        tool: 'transaction',
        input: ({ secondDeposit }) => ({ signature: secondDeposit }),
        finds: both(
          says(/^Succeeded in slot \d+/),
          has(
            ({ wallet }) => wallet,
            ({ payer }) => payer,
          ),
        ),
      },
    ],
  },
  one(
    'Did the tokens arrive?',
    'history',
    ({ wallet, mint }) => ({ address: wallet, mint, direction: 'in' }),
    both(
      items(1),
      has(({ tokenDeposit }) => tokenDeposit),
    ),
  ),
  one(
    'Is this payment final?',
    'transaction',
    ({ deposit }) => ({ signature: deposit, view: 'status' }),
    says(/succeeded in slot \d+ and is (confirmed|finalized)/),
  ),
  one(
    'What does this wallet hold?',
    'wallet',
    ({ wallet }) => ({ wallet }),
    has(({ mint }) => mint),
  ),
  one(
    'Which balances, page by page?',
    'wallet',
    ({ wallet }) => ({ wallet, view: 'balances', limit: 1 }),
    says(/1 balance on this page/),
  ),
  one(
    'Who paid this wallet first?',
    'wallet',
    ({ wallet }) => ({ wallet, view: 'funded_by' }),
    has(
      ({ payer }) => payer,
      ({ deposit }) => deposit,
    ),
  ),
  one(
    'What happened to this wallet lately?',
    'wallet',
    ({ wallet }) => ({ wallet, view: 'history', limit: 5 }),
    has(({ tokenDeposit }) => tokenDeposit),
  ),
  one(
    'Who sent this wallet money?',
    'wallet',
    ({ wallet }) => ({ wallet, view: 'transfers' }),
    has(({ payer }) => payer),
  ),
  one(
    'How much did it hold after that block?',
    'wallet',
    ({ wallet, slot }) => ({ wallet, view: 'balance_at', slot }),
    has(() => '2500000001'),
  ),
  one('Is this wallet known?', 'wallet', ({ stranger }) => ({ wallet: stranger, view: 'identity' }), says(/not known/)),
  one(
    'Has this address ever been used?',
    'history',
    ({ stranger }) => ({ address: stranger, view: 'transactions' }),
    both(items(0), says(/That is all/)),
  ),
  one(
    'Does this address exist?',
    'account',
    ({ stranger }) => ({ address: stranger }),
    ({ data }) => assert.equal(data['exists'], false),
  ),
  one(
    'What is this account?',
    'account',
    ({ tokenAccount }) => ({ address: tokenAccount }),
    has(({ mint }) => mint),
  ),
  one(
    'Show me the raw bytes of this account',
    'account',
    ({ mint }) => ({ address: mint, view: 'raw' }),
    both(
      says(new RegExp(TOKEN_PROGRAM)),
      has(() => 'base64'),
    ),
  ),
  one(
    'How many of this token are there?',
    'token',
    ({ mint }) => ({ mint }),
    says(/3 decimals and a supply of 1000 raw units/),
  ),
  one(
    'Who holds this token?',
    'token',
    ({ mint }) => ({ mint, view: 'holders' }),
    has(({ tokenAccount }) => tokenAccount),
  ),
  one(
    'What is this asset?',
    'asset',
    ({ mint }) => ({ id: mint }),
    has(({ mint }) => mint),
  ),
  one(
    'Which assets does this wallet have?',
    'asset',
    ({ wallet }) => ({ id: wallet, view: 'by_owner' }),
    says(/on page 1/),
  ),
  one(
    'What did this program do?',
    'program',
    () => ({ program: MEMO_PROGRAM }),
    has(({ memo }) => memo),
  ),
  one(
    'What did this program do for this account?',
    'program',
    ({ payer }) => ({ program: SYSTEM, account: payer, instructions: ['transfer'], status: 'succeeded' }),
    ({ data }) => assert.ok(Number((data['counts'] as Record<string, number>)['transfer']) >= 3),
  ),
  one(
    'What did this program do before the year 2000?',
    'program',
    ({ payer }) => ({ program: SYSTEM, account: payer, until: '2000-01-01T00:00:00Z' }),
    items(0),
  ),
  one(
    'Which calls does this program have?',
    'program',
    () => ({ program: SYSTEM, view: 'interface' }),
    has(() => 'transfer'),
  ),
  one(
    'Which of my transactions failed?',
    'history',
    ({ payer }) => ({ address: payer, view: 'transactions', status: 'failed' }),
    both(
      items(1),
      has(({ failed }) => failed),
    ),
  ),
  one(
    'What were the first things this wallet did?',
    'history',
    ({ wallet }) => ({ address: wallet, view: 'explained', order: 'oldest', limit: 1 }),
    both(
      items(1),
      has(({ deposit }) => deposit),
    ),
  ),
  one(
    'What exactly does the node say about this transaction?',
    'transaction',
    ({ deposit }) => ({ signature: deposit, view: 'raw' }),
    has(
      ({ deposit }) => deposit,
      () => 'meta',
    ),
  ),
  one(
    'In one word, what was it?',
    'transaction',
    ({ deposit }) => ({ signature: deposit, view: 'effects' }),
    has(() => 'TRANSFER'),
  ),
  one('Is the chain healthy?', 'chain_status', () => ({}), says(/finalized \d+.*healthy/)),
  one(
    'What do I pay for priority?',
    'chain_status',
    () => ({ view: 'fees' }),
    has(() => 'priorityFeeLevels'),
  ),
  one(
    'What is in this block?',
    'chain_status',
    ({ slot }) => ({ view: 'block', slot }),
    both(
      says(/has 1 transaction/),
      has(({ memo }) => memo),
    ),
  ),
  one('How many credits have I left?', 'usage', () => ({}), says(/credits left/)),
  one(
    'How do I verify a webhook?',
    'docs_search',
    () => ({ query: 'verify webhook signature standard webhooks' }),
    has(() => 'webhooks'),
  ),
  one(
    'Show me the page about webhooks',
    'docs_search',
    () => ({ page: 'webhooks' }),
    has(() => 'Delivery guarantee'),
  ),
];
