import type { GetPromptResult, Prompt } from '@modelcontextprotocol/server';
import { visible } from './shorten.ts';

interface Job {
  readonly listing: Prompt;
  text(given: Readonly<Record<string, string>>): string;
}

const argument = (name: string, description: string, required = true) => ({ name, description, required });

/** Three common jobs, as steps over the tools. */
const JOBS: readonly Job[] = [
  {
    listing: {
      name: 'find-deposit',
      title: 'Why did a deposit not arrive?',
      description: 'Find out what became of a payment to a wallet',
      arguments: [
        argument('wallet', 'address that should have received it'),
        argument('signature', 'signature of the payment, if it is known', false),
        argument('amount', 'what was sent, and when', false),
      ],
    },
    text: ({ wallet, signature, amount }) => `A deposit to the wallet ${wallet} is missing.${
      amount === undefined ? '' : ` It was: ${amount}.`
    }
${
  signature === undefined
    ? '1. Call history with this address, view transfers and direction in, and look for it. Compare mints, not names of tokens.\n2. If it is not there, call wallet with view balances, and look for a token account that holds it.'
    : `1. Call transaction with signature ${signature}. If it was not found, call it with view status: it may not be confirmed, or was never sent.\n2. If it failed, say why, from transaction.decodedError or error. If it succeeded, compare receivers, mints and amounts of its transfers with ${wallet}.`
}
3. If a webhook should have reported it, call webhooks with view list, then with view why and the signature.
4. Call chain_status: a chain or daemon that is behind explains a short wait.
Answer with what happened, the slot and time, and what to do next. Say what you could not find out.`,
  },
  {
    listing: {
      name: 'watch-wallet',
      title: 'Watch a wallet',
      description: 'Set up a webhook for a wallet, and test it',
      arguments: [argument('wallet', 'address to watch'), argument('url', 'receiver of the events')],
    },
    text: ({ wallet, url }) => `Set up a webhook that reports what happens to the wallet ${wallet} to ${url}.
1. Call webhooks with view list: if one has this receiver, add the address to it instead.
2. Call change_webhook with action create and settings {webhookURL, accountAddresses, webhookType: "enhanced", transactionTypes: ["ANY"], txnStatus: "all"}. It changes nothing yet.
3. Show me what it says that will change, and wait for my answer. Then call it again with confirm.
4. Show me the signing secret: it is returned only once.
5. Test it: change_webhook with action test, again with my agreement. Report status and failure of the receiver.`,
  },
  {
    listing: {
      name: 'program-activity',
      title: 'What did this program do?',
      description: 'Sum up the calls of a program in a period',
      arguments: [
        argument('program', 'address of the program'),
        argument('since', 'start of the period: ISO 8601'),
        argument('until', 'end of the period: ISO 8601', false),
      ],
    },
    text: ({ program, since, until }) => `Sum up what the program ${program} did since ${since}${
      until === undefined ? '' : ` until ${until}`
    }.
1. Call program with view interface for the names of its instructions.
2. Call program with view activity, since${until === undefined ? '' : ' and until'}, and limit 100. Follow next until it is null or you have 1,000 transactions.
3. Add up counts by instruction, failures, and distinct fee payers. For the most common failure, call transaction for one example.
Answer with a table by instruction, the share of failures with their reason, and how much of the period you have read.`,
  },
];

export const PROMPTS: readonly Prompt[] = JOBS.map(({ listing }) => listing);

const MAX_ARGUMENT = 512;

/** The messages of a prompt, or why there are none. */
export function promptOf(name: string, given: Readonly<Record<string, string>>): GetPromptResult | string {
  const job = JOBS.find(({ listing }) => listing.name === name);
  if (job === undefined) return `There is no prompt ${visible(name.slice(0, 64))}`;
  const declared = job.listing.arguments ?? [];
  for (const { name: argument, required } of declared)
    if (required === true && (given[argument] ?? '') === '') return `The argument ${argument} is required`;
  const known = declared.flatMap((one) => {
    const value = given[one.name];
    return value === undefined || value === '' ? [] : [[one.name, visible(value.slice(0, MAX_ARGUMENT))] as const];
  });
  const text = job.text(Object.fromEntries(known));
  return {
    description: job.listing.description,
    messages: [{ role: 'user', content: { type: 'text', text } }],
  };
}
