/** Airdrops, transfers and forks on the local chain, and what the daemon made of them: blocks, transactions in words, deliveries. */
import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import {
  type ForkAnswer,
  get,
  hookCall,
  type ListedDeliveries,
  lookUp,
  type Paid,
  type PlaygroundView,
  type Project,
  post,
  type ShownDelivery,
  type ShownWebhook,
  type TransactionAnswer,
} from './api.ts';
import { count, middle, number, units } from './format.ts';
import { href, useWorld } from './place.ts';
import { WhatItDid } from './transaction.tsx';
import {
  AddressLink,
  Badge,
  Card,
  CheckField,
  Code,
  CommandLine,
  Empty,
  Facts,
  Form,
  Head,
  Id,
  Notice,
  Segments,
  Show,
  Table,
  TextField,
  type Tone,
  useLoad,
} from './ui.tsx';

const WATCH_MS = 1_000;
const SOL_DECIMALS = 9;
const SHOWN_BLOCKS = 15;
/** What is followed of the things that were done. */
const MAX_DONE = 8;
/** Webhooks of a project that are asked for deliveries. */
const MAX_HOOKS = 10;

type Payment = Paid & { readonly kind: 'airdrop' | 'transfer'; readonly id: number; readonly lamports: number };
type Fork = ForkAnswer & { readonly kind: 'fork'; readonly id: number };
type Done = Payment | Fork;
type Block = PlaygroundView['blocks'][number];

/** Newest first; kept while other pages are looked at. */
let kept: readonly Done[] = [];
/** Hashes of blocks that the daemon was seen to have rolled back: it remembers the last ones only. */
const rolledBack = new Set<string>();

async function load(): Promise<PlaygroundView> {
  const view = await get<PlaygroundView>('/playground');
  for (const { blockhash, state } of view.blocks) if (state === 'rolled back') rolledBack.add(blockhash);
  return view;
}

export function PlaygroundPage() {
  const { project } = useWorld();
  const [done, setDone] = useState(kept);
  const view = useLoad(load, [], WATCH_MS);
  const add = (one: Omit<Payment, 'id'> | Omit<Fork, 'id'>) => {
    kept = [{ ...one, id: (kept[0]?.id ?? 0) + 1 } as Done, ...kept].slice(0, MAX_DONE);
    setDone(kept);
    void view.reload();
  };
  return (
    <>
      <Head
        title="Playground"
        note="Send something over the daemon's local chain, or fork it, and see what the daemon makes of it. Nothing here is worth anything."
      />
      <Show of={view} lines={8}>
        {(found) => (
          <>
            <Actions view={found} onDone={add} />
            {done.map((one) =>
              one.kind === 'fork' ? (
                <ForkCard key={one.id} fork={one} blocks={found.blocks} />
              ) : (
                <PaymentCard key={one.id} project={project} payment={one} forks={forksSince(done, one.id)} />
              ),
            )}
            <BlocksCard project={project} blocks={found.blocks} />
          </>
        )}
      </Show>
    </>
  );
}

const forksSince = (done: readonly Done[], id: number): readonly Fork[] =>
  done.filter((one): one is Fork => one.kind === 'fork' && one.id > id);

// ------------------------------------------------------------------------------------------------------------- actions

const ACTS = [
  ['airdrop', 'Airdrop'],
  ['transfer', 'Transfer'],
  ['fork', 'Fork'],
] as const;
type Act = (typeof ACTS)[number][0];

interface ActionProps {
  readonly view: PlaygroundView;
  onDone(done: Omit<Payment, 'id'> | Omit<Fork, 'id'>): void;
}

function Actions({ view, onDone }: ActionProps) {
  const [act, setAct] = useState<Act>('airdrop');
  return (
    <Card>
      <div class="stack play">
        <div>
          <Segments label="What to do" options={ACTS} value={act} onChange={setAct} />
        </div>
        {act === 'fork' ? (
          <ForkForm view={view} onDone={onDone} />
        ) : (
          <PaymentForm key={act} kind={act} view={view} onDone={onDone} />
        )}
      </div>
    </Card>
  );
}

const AMOUNT = /^(\d{1,6})(?:\.(\d{1,9}))?$/;

/** Null for a text that is no amount of SOL. */
function lamportsOf(text: string): number | null {
  const [, whole, fraction = ''] = AMOUNT.exec(text.trim()) ?? [];
  return whole === undefined ? null : Number(whole + fraction.padEnd(SOL_DECIMALS, '0'));
}

function PaymentForm({ kind, view, onDone }: ActionProps & { kind: 'airdrop' | 'transfer' }) {
  const { project } = useWorld();
  const [to, setTo] = useState('');
  const [amount, setAmount] = useState('1');
  const [error, setError] = useState<string>();
  const { address, lamports: has } = view.payer;
  return (
    <Form
      submit={kind === 'airdrop' ? 'Airdrop' : 'Transfer'}
      onSubmit={async () => {
        const lamports = lamportsOf(amount);
        setError(lamports === null || lamports === 0 ? 'An amount such as 1 or 0.25' : undefined);
        if (lamports === null || lamports === 0) return;
        const receiver = to.trim() === '' ? null : to.trim();
        const paid = await post<Paid>(`/playground/${kind}`, { address: receiver, lamports });
        onDone({ ...paid, kind, lamports });
      }}
    >
      {kind === 'transfer' && (
        <p class="soft">
          From {project === null ? middle(address) : <AddressLink project={project} address={address} />}, a wallet of
          the demo that has {units(has, SOL_DECIMALS)} SOL
        </p>
      )}
      <TextField
        label="To"
        hint="Empty: a fresh address, whose key you get"
        spellcheck={false}
        autoComplete="off"
        value={to}
        onValue={setTo}
      />
      <TextField label="Amount in SOL" inputMode="decimal" value={amount} error={error} onValue={setAmount} />
    </Form>
  );
}

function ForkForm({ view: { canFork, maxForkDepth }, onDone }: ActionProps) {
  const [depth, setDepth] = useState('2');
  const [drops, setDrops] = useState(false);
  const [error, setError] = useState<string>();
  if (!canFork)
    return (
      <Notice tone="info" title="Every block of this chain is final at once, so that it never forks">
        <p>
          To see forks, start the daemon with TowerBFT. It begins a new chain, with new projects and keys:
          <br />
          <CommandLine line="PARHELION_UPSTREAM__LOCAL__CONSENSUS=towerbft parhelion serve" />
        </p>
      </Notice>
    );
  return (
    <Form
      submit="Fork"
      onSubmit={async () => {
        const wanted = /^\d{1,5}$/.test(depth.trim()) ? Number(depth) : 0;
        const isGood = wanted >= 1 && wanted <= maxForkDepth;
        setError(
          isGood
            ? undefined
            : `A number from 1 to ${maxForkDepth}: older blocks are final, or from before the daemon was started`,
        );
        if (!isGood) return;
        const report = await post<ForkAnswer>('/playground/fork', { depth: wanted, keepsTransactions: !drops });
        onDone({ ...report, kind: 'fork' });
      }}
    >
      <TextField
        label="Blocks to drop"
        hint="The newest ones; the chain goes on from the block before them"
        inputMode="numeric"
        value={depth}
        error={error}
        onValue={setDepth}
      />
      <CheckField
        label="Drop their transactions too"
        hint="Otherwise they run again in blocks of the new branch"
        checked={drops}
        onChecked={setDrops}
      />
    </Form>
  );
}

// ------------------------------------------------------------------------------------------------------- what happened

const TONES: Readonly<Record<Block['state'], Tone>> = { confirmed: 'info', final: 'good', 'rolled back': 'warn' };

interface PaymentProps {
  readonly project: Project | null;
  readonly payment: Payment;
  /** Forks after this payment. */
  readonly forks: readonly Fork[];
}

function PaymentCard({ project, payment, forks }: PaymentProps) {
  const { kind, address, lamports, keypair, signature } = payment;
  const isLost = forks.some(({ lost }) => lost.includes(signature));
  const moves = forks.flatMap(({ moved }) => moved.filter((one) => one.signature === signature));
  const title = `${kind === 'airdrop' ? 'Airdrop' : 'Transfer'} of ${units(lamports, SOL_DECIMALS)} SOL`;
  return (
    <Card title={title}>
      <div class="stack">
        {isLost ? (
          <Notice tone="warn" title="A fork dropped its block, and no block of the new branch has it" />
        ) : (
          project !== null && <Told project={project} signature={signature} forks={forks.length} />
        )}
        {moves.map(({ from, to }) => (
          <p key={to}>
            A fork moved it from block {number(from)} to block {number(to)}.
          </p>
        ))}
        <Facts
          rows={[
            ['To', project === null ? address : <AddressLink project={project} address={address} />],
            [
              'Transaction',
              <Id
                key="signature"
                text={signature}
                kept={10}
                {...(project === null ? {} : { to: href(['p', project.id, 'look-up', signature]) })}
              />,
            ],
            ['Deliveries', project === null ? null : <Deliveries project={project} payment={payment} />],
          ]}
        />
        {keypair !== null && (
          <details>
            <summary>Key of the fresh address</summary>
            <Code label="the key, as a file of solana-keygen" value={keypair} />
          </details>
        )}
      </div>
    </Card>
  );
}

/** The transaction in words, as the API tells it; asked until it is there, and again after a fork. */
function Told({ project, signature, forks }: { project: Project; signature: string; forks: number }) {
  const [isFound, setFound] = useState(-1);
  const loaded = useLoad(
    async () => {
      const { result } = await lookUp<readonly TransactionAnswer[]>(project.id, { what: 'transaction', signature });
      if (result[0]?.parsed !== undefined) setFound(forks);
      return result[0]?.parsed ?? null;
    },
    [project.id, signature, forks],
    isFound === forks ? undefined : WATCH_MS,
  );
  if (loaded.error !== null) return <p class="soft">{loaded.error.message}</p>;
  if (loaded.data === null)
    return (
      <p class="soft" role="status">
        Waiting for its block…
      </p>
    );
  return (
    <>
      <p class="sentence">
        <WhatItDid project={project} parsed={loaded.data} own="" />
      </p>
      <p class="soft">In block {number(loaded.data.slot)}</p>
    </>
  );
}

const DELIVERED: Readonly<Record<ShownDelivery['status'], Tone>> = {
  pending: 'info',
  delivered: 'good',
  failed: 'bad',
  discarded: 'warn',
};

function Deliveries({ project, payment: { signature } }: { project: Project; payment: Payment }) {
  const { hasWebhooks } = useWorld();
  const loaded = useLoad(
    async () => {
      if (!hasWebhooks) return [];
      const hooks = await hookCall<readonly ShownWebhook[]>(project.id, 'GET', '');
      const of = async (hook: ShownWebhook) => {
        const path = `/${hook.webhookID}/deliveries?signature=${signature}`;
        const { data } = await hookCall<ListedDeliveries>(project.id, 'GET', path);
        return data.map((delivery) => ({ hook, delivery }));
      };
      return (await Promise.all(hooks.slice(0, MAX_HOOKS).map(of))).flat();
    },
    [project.id, signature],
    2 * WATCH_MS,
  );
  const all = href(['p', project.id, 'webhooks']);
  if (loaded.error !== null) return <span class="soft">{loaded.error.message}</span>;
  if (loaded.data === null || loaded.data.length === 0)
    return (
      <span class="soft">
        none: no <a href={all}>webhook of {project.name || 'this project'}</a> has sent it
      </span>
    );
  return (
    <ul>
      {loaded.data.map(({ hook, delivery }) => (
        <li key={delivery.deliveryId}>
          <Badge tone={DELIVERED[delivery.status]}>{delivery.status}</Badge>{' '}
          <a href={href(['p', project.id, 'webhooks', hook.webhookID, 'deliveries', delivery.deliveryId])}>
            {hook.name ?? hook.webhookURL}
          </a>{' '}
          <span class="soft">as a transaction of block {number(delivery.slot)}</span>
        </li>
      ))}
    </ul>
  );
}

function ForkCard({ fork, blocks }: { fork: Fork; blocks: readonly Block[] }) {
  const { dropped, added, lost, moved, commonAncestor } = fork;
  const daemonOf = (blockhash: string): ComponentChildren => {
    if (rolledBack.has(blockhash)) return <Badge tone="good">rolled it back</Badge>;
    if (blocks.some((seen) => seen.blockhash === blockhash))
      return <Badge tone="info">has not seen the fork yet</Badge>;
    return <span class="soft">not among the last blocks that it remembers</span>;
  };
  return (
    <Card
      title={`Fork: ${count(dropped.length, 'block')} dropped`}
      note={`The new branch has ${count(added.length, 'block')} after block ${number(commonAncestor)}. ${
        lost.length + moved.length === 0
          ? 'No transaction was in the dropped ones.'
          : `${count(moved.length, 'transaction')} moved, ${number(lost.length)} gone.`
      }`}
      flush
    >
      <Table
        caption="Dropped blocks"
        keyOf={({ blockhash }) => blockhash}
        rows={dropped}
        empty={<Empty title="None" />}
        columns={[
          { name: 'Dropped block', isTitle: true, show: ({ slot }) => number(slot) },
          { name: 'Hash', isMinor: true, show: ({ blockhash }) => <Id text={blockhash} kept={6} copy={false} /> },
          { name: 'Transactions', isNumber: true, show: ({ signatures }) => number(signatures.length) },
          { name: 'The daemon', show: ({ blockhash }) => daemonOf(blockhash) },
        ]}
      />
    </Card>
  );
}

function BlocksCard({ project, blocks }: { project: Project | null; blocks: readonly Block[] }) {
  return (
    <Card title="Blocks" note="What the daemon released of the chain, newest first" flush>
      <Table
        caption="Released blocks"
        dense
        keyOf={({ blockhash }) => blockhash}
        rows={blocks.slice(0, SHOWN_BLOCKS)}
        empty={<Empty title="Nothing since the daemon was started" />}
        columns={[
          { name: 'Block', isTitle: true, show: ({ slot }) => number(slot) },
          { name: 'State', show: ({ state }) => <Badge tone={TONES[state]}>{state}</Badge> },
          { name: 'Hash', isMinor: true, show: ({ blockhash }) => <Id text={blockhash} kept={6} copy={false} /> },
          {
            name: 'Transactions',
            show: ({ signatures }) =>
              signatures === null || signatures.length === 0 ? (
                <span class="soft">{signatures === null ? '–' : 'none'}</span>
              ) : (
                <Signatures project={project} all={signatures} />
              ),
          },
        ]}
      />
    </Card>
  );
}

const SHOWN_SIGNATURES = 3;

function Signatures({ project, all }: { project: Project | null; all: readonly string[] }) {
  const more = all.length - SHOWN_SIGNATURES;
  return (
    <>
      {all.slice(0, SHOWN_SIGNATURES).map((signature) => (
        <span key={signature}>
          <Id
            text={signature}
            kept={6}
            copy={false}
            {...(project === null ? {} : { to: href(['p', project.id, 'look-up', signature]) })}
          />{' '}
        </span>
      ))}
      {more > 0 && <span class="soft">and {number(more)} more</span>}
    </>
  );
}
