import { useMemo, useState } from 'preact/hooks';
import {
  type ChainGap,
  type FilledRange,
  get,
  type PluginView,
  type Setting,
  type ShownAudit,
  type Tree,
  type Wallet,
} from './api.ts';
import { number, utc } from './format.ts';
import { href, useWorld } from './place.ts';
import {
  Badge,
  Button,
  breakable,
  Card,
  CheckField,
  CommandLine,
  Empty,
  Head,
  Id,
  Show,
  Table,
  TextField,
  Time,
  type Tone,
  useLoad,
} from './ui.tsx';

/** Pages of a list by cursors, which lead on and to the first page only. */
function usePages<T>(path: (cursor: string | null) => string, everyMs?: number) {
  const [cursor, setCursor] = useState<string | null>(null);
  const loaded = useLoad(
    () => get<T & { readonly nextCursor: string | null }>(path(cursor)),
    [cursor],
    cursor === null ? everyMs : undefined,
  );
  const next = loaded.data?.nextCursor ?? null;
  const pages = (cursor !== null || next !== null) && (
    <nav class="pages" aria-label="Pages">
      {cursor === null ? <span /> : <Button onClick={() => setCursor(null)}>First page</Button>}
      {next !== null && <Button onClick={() => setCursor(next)}>Next page</Button>}
    </nav>
  );
  return { loaded, pages };
}

// --------------------------------------------------------------------------------------------------------------- trees

const TREE_TYPES: Readonly<Record<number, string>> = {
  1: 'state V1',
  2: 'address V1',
  3: 'state V2',
  4: 'address V2',
  5: 'compressed NFTs',
};
const TREE_TONES: Readonly<Record<string, Tone>> = { ok: 'good', unverified: 'plain' };

export function TreesPage() {
  const { project } = useWorld();
  const trees = useLoad(() => get<{ slot: number; trees: readonly Tree[] }>('/trees'), [], 10_000);
  return (
    <>
      <Head
        title="Trees"
        note={
          trees.data === null
            ? 'Merkle trees of compressed accounts'
            : `Merkle trees of compressed accounts, as of slot ${number(trees.data.slot)}`
        }
      />
      <Card flush>
        <Show of={trees} lines={6}>
          {(found) => (
            <Table
              caption="Trees"
              tools="trees"
              keyOf={({ tree }) => tree}
              rows={found.trees}
              empty={<Empty title="No trees">The plugin compression is off, or no tree was seen yet.</Empty>}
              columns={[
                {
                  name: 'Tree',
                  isTitle: true,
                  value: ({ tree }) => tree,
                  show: ({ tree }) => (
                    <Id
                      text={tree}
                      kept={10}
                      {...(project === null ? {} : { to: href(['p', project.id, 'look-up', tree]) })}
                    />
                  ),
                },
                {
                  name: 'State',
                  value: ({ state }) => state,
                  show: ({ state }) => <Badge tone={TREE_TONES[state] ?? 'bad'}>{state}</Badge>,
                },
                {
                  name: 'Type',
                  value: ({ type }) => TREE_TYPES[type] ?? String(type),
                  show: ({ type }) => TREE_TYPES[type] ?? String(type),
                },
                { name: 'Leaves', isNumber: true, value: ({ size }) => size, show: ({ size }) => number(size) },
                {
                  name: 'Progress',
                  show: ({ tree, reading }) =>
                    reading === null ? '–' : <Filled gap={reading} of={`Reading of ${tree}`} />,
                },
                {
                  name: 'Slots since checked',
                  isNumber: true,
                  value: ({ lag }) => lag,
                  show: ({ lag }) => number(lag),
                },
                {
                  name: 'Reason',
                  value: ({ reason }) => reason,
                  show: ({ reason }) => (reason === null ? '–' : <span class="soft">{reason}</span>),
                },
              ]}
            />
          )}
        </Show>
      </Card>
    </>
  );
}

// ------------------------------------------------------------------------------------------------------------- wallets

export function WalletsPage() {
  const { project } = useWorld();
  const { loaded, pages } = usePages<{ wallets: readonly Wallet[] }>(
    (cursor) => `/wallets${cursor === null ? '' : `?cursor=${cursor}`}`,
    10_000,
  );
  return (
    <>
      <Head title="Wallets" note="Indexed wallets: everything between the two slots is stored" />
      <Card flush>
        <Show of={loaded} lines={6}>
          {({ wallets }) => (
            <Table
              caption="Indexed wallets"
              keyOf={({ address }) => address}
              rows={wallets}
              empty={<Empty title="No wallets yet">A wallet is indexed when it is first requested.</Empty>}
              columns={[
                {
                  name: 'Wallet',
                  isTitle: true,
                  show: ({ address }) => (
                    <Id
                      text={address}
                      kept={10}
                      {...(project === null ? {} : { to: href(['p', project.id, 'look-up', address]) })}
                    />
                  ),
                },
                {
                  name: 'State',
                  show: ({ state, trouble }) => (
                    <Badge tone={trouble === null ? (/current$/.test(state) ? 'good' : 'info') : 'bad'}>
                      {trouble ?? state}
                    </Badge>
                  ),
                },
                {
                  name: 'Progress',
                  show: ({ address, state, fromSlot }) =>
                    !/^(is being|waits to be) indexed/.test(state) ? (
                      '–'
                    ) : (
                      // How many transactions are left is known at the end.
                      <span class="progress">
                        <progress aria-label={`Indexing of ${address}`} />
                        {fromSlot === null ? 'not begun' : `down to slot ${number(fromSlot)}`}
                      </span>
                    ),
                },
                { name: 'Followed', show: ({ followed, pinned }) => (pinned ? 'always' : followed ? 'yes' : 'no') },
                { name: 'From slot', isNumber: true, show: ({ fromSlot }) => number(fromSlot) },
                { name: 'To slot', isNumber: true, show: ({ toSlot }) => number(toSlot) },
                { name: 'Transactions', isNumber: true, show: ({ transactions }) => number(transactions) },
              ]}
            />
          )}
        </Show>
        {pages}
      </Card>
    </>
  );
}

// ---------------------------------------------------------------------------------------------------------------- gaps

const GAP_REASONS: Readonly<Record<string, string>> = {
  pruned: 'no upstream had the blocks',
  too_old: 'older than the catch-up limit',
  hole: 'a missing block was given up',
  manual: 'requested',
  skipped: 'a plugin failed',
};
const GAP_TONES: Readonly<Record<string, Tone>> = { open: 'warn', filling: 'info', filled: 'good' };

function Filled({ gap, of }: { gap: FilledRange; of: string }) {
  const part = progressOf(gap);
  return (
    <span class="progress">
      <progress max={1} value={part} aria-label={of} />
      {Math.floor(part * 100)} %
    </span>
  );
}

/** Part of a gap that is filled, from 0 to 1. */
function progressOf({ fromSlot, toSlot, filledTo, status }: FilledRange): number {
  if (status === 'filled') return 1;
  if (filledTo === null) return 0;
  return Math.min(1, Math.max(0, (filledTo - fromSlot + 1) / (toSlot - fromSlot + 1)));
}

export function GapsPage() {
  const { loaded, pages } = usePages<{ gaps: readonly ChainGap[] }>(
    (cursor) => `/gaps${cursor === null ? '' : `?cursor=${cursor}`}`,
    3_000,
  );
  return (
    <>
      <Head title="Gaps and backfill" note="Ranges of slots that were passed over or requested, newest first" />
      <Card flush>
        <Show of={loaded} lines={6}>
          {({ gaps }) => (
            <Table
              caption="Gaps"
              keyOf={({ id }) => id}
              rows={gaps}
              empty={
                <Empty title="No gaps">
                  Nothing was passed over. <CommandLine line="parhelion backfill --from SLOT --to SLOT" /> reads a range
                  again.
                </Empty>
              }
              columns={[
                {
                  name: 'Slots',
                  isTitle: true,
                  show: ({ fromSlot, toSlot }) => `${number(fromSlot)} – ${number(toSlot)}`,
                },
                { name: 'State', show: ({ status }) => <Badge tone={GAP_TONES[status] ?? 'plain'}>{status}</Badge> },
                {
                  name: 'Filled',
                  show: (gap) => <Filled gap={gap} of={`Filled of ${gap.fromSlot} to ${gap.toSlot}`} />,
                },
                { name: 'Chain', show: ({ chain }) => chain },
                {
                  name: 'Reason',
                  show: ({ id, status, reason, trouble }) => (
                    <>
                      <span class={trouble === null ? '' : 'error'}>{trouble ?? GAP_REASONS[reason] ?? reason}</span>
                      {trouble !== null && status === 'open' && (
                        <span class="soft detail">
                          {' '}
                          To give it up: <CommandLine line={`parhelion backfill --abandon ${id}`} />
                        </span>
                      )}
                    </>
                  ),
                },
                { name: 'For', show: ({ processors }) => processors.join(', ') },
                { name: 'Found', show: ({ detectedAt }) => <Time at={detectedAt} /> },
              ]}
            />
          )}
        </Show>
        {pages}
      </Card>
    </>
  );
}

// ------------------------------------------------------------------------------------------------------------- plugins

function Names({ of }: { of: readonly string[] }) {
  if (of.length === 0) return <>–</>;
  return (
    <details class="names">
      <summary>{of.length}</summary>
      <ul>
        {of.map((name) => (
          <li key={name}>
            <code>{name}</code>
          </li>
        ))}
      </ul>
    </details>
  );
}

export function PluginsPage() {
  const plugins = useLoad(() => get<{ plugins: readonly PluginView[] }>('/plugins'), []);
  return (
    <>
      <Head title="Plugins" note="Loaded plugins with their routes, methods, processors and jobs" />
      <Card flush>
        <Show of={plugins} lines={6}>
          {(found) => (
            <Table
              caption="Running plugins"
              keyOf={({ id }) => id}
              rows={found.plugins}
              empty={<Empty title="No plugins" />}
              columns={[
                { name: 'Plugin', isTitle: true, show: ({ id }) => <span class="strong">{id}</span> },
                { name: 'Summary', show: ({ summary }) => summary },
                { name: 'Routes', show: ({ routes }) => <Names of={routes} /> },
                { name: 'JSON-RPC methods', show: ({ rpcMethods }) => <Names of={rpcMethods} /> },
                { name: 'Processors', show: ({ processors }) => breakable(processors.join(', ') || '–') },
                { name: 'Jobs', show: ({ jobs }) => breakable(jobs.join(', ') || '–') },
              ]}
            />
          )}
        </Show>
      </Card>
    </>
  );
}

// ------------------------------------------------------------------------------------------------------- configuration

export function ConfigPage() {
  const config = useLoad(() => get<{ settings: readonly Setting[] }>('/config'), []);
  const [text, setText] = useState('');
  const [all, setAll] = useState(false);
  const changed = config.data?.settings.filter(({ isChanged }) => isChanged).length ?? 0;
  const wanted = text.trim().toLowerCase();
  const matches = ({ key, description, isChanged }: Setting) =>
    (all || isChanged || wanted !== '') && `${key} ${description}`.toLowerCase().includes(wanted);
  return (
    <>
      <Head
        title="Configuration"
        note={
          config.data === null
            ? 'The effective values; secrets are hidden'
            : `${changed} of ${config.data.settings.length} keys differ from their defaults; secrets are hidden`
        }
      />
      <div class="filters">
        <TextField label="Search" type="search" placeholder="Key or description" value={text} onValue={setText} />
        <CheckField label="Show defaults too" checked={all} onChecked={setAll} />
      </div>
      <Show of={config} lines={8}>
        {({ settings }) => <Settings settings={settings.filter(matches)} />}
      </Show>
    </>
  );
}

function Settings({ settings }: { settings: readonly Setting[] }) {
  const sections = useMemo(() => {
    const found = new Map<string, Setting[]>();
    for (const setting of settings) {
      const name = setting.key.split('.')[0] as string;
      found.set(name, [...(found.get(name) ?? []), setting]);
    }
    return [...found];
  }, [settings]);
  if (sections.length === 0)
    return (
      <Card>
        <Empty title="Nothing to show">No key matches, or all have their defaults.</Empty>
      </Card>
    );
  return (
    <>
      {sections.map(([name, own]) => (
        <Card key={name} title={name} flush>
          <ul class="settings">
            {own.map(({ key, value, default: initial, isChanged, description }) => (
              <li key={key} class={isChanged ? 'changed' : ''}>
                <div>
                  <code class="strong">{key}</code>
                  <p class="soft small">{description}</p>
                </div>
                <div class="values">
                  <code class="value">{show(value)}</code>
                  {isChanged && (
                    <span class="soft small">
                      default <code>{show(initial)}</code>
                    </span>
                  )}
                </div>
              </li>
            ))}
          </ul>
        </Card>
      ))}
    </>
  );
}

const show = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value));

// --------------------------------------------------------------------------------------------------------------- audit

export function AuditPage() {
  const { projects } = useWorld();
  const { loaded, pages } = usePages<{ entries: readonly ShownAudit[] }>(
    (cursor) => `/audit?limit=50${cursor === null ? '' : `&cursor=${cursor}`}`,
    10_000,
  );
  const names = useMemo(() => new Map(projects.map(({ id, name }) => [id, name])), [projects]);
  return (
    <>
      <Head title="Audit log" note="Every change and log-in, newest first" />
      <Card flush>
        <Show of={loaded} lines={8}>
          {({ entries }) => (
            <Table
              caption="Actions, newest first"
              keyOf={({ id }) => id}
              rows={entries}
              empty={<Empty title="Nothing yet" />}
              columns={[
                {
                  name: 'Action',
                  isTitle: true,
                  show: (entry) => {
                    const { title, detail } = sentenceOf(entry, names);
                    return (
                      <span title={`${entry.action} ${entry.target}`}>
                        {title}
                        {detail !== '' && <span class="soft detail"> {detail}</span>}
                      </span>
                    );
                  },
                },
                {
                  name: 'Outcome',
                  show: ({ action, outcome }) => {
                    const shown = action === 'session.refused' ? 'refused' : outcome;
                    return (
                      <Badge tone={shown === 'done' ? 'good' : shown === 'failed' ? 'bad' : 'warn'}>{shown}</Badge>
                    );
                  },
                },
                { name: 'Who', show: ({ actor }) => actorOf(actor, names) },
                { name: 'From', show: ({ address }) => address || '–' },
                { name: 'Time (UTC)', show: ({ at }) => <time>{utc(at)}</time> },
              ]}
            />
          )}
        </Show>
        {pages}
      </Card>
    </>
  );
}

type Names = ReadonlyMap<string, string>;

function actorOf(actor: string, names: Names): string {
  const [, kind, id = ''] = /^(project|portal):(.*)$/.exec(actor) ?? [];
  if (kind !== undefined) return `${kind === 'portal' ? 'portal' : 'owner'} of ${names.get(id) ?? id}`;
  return actor === 'nobody' ? 'unknown' : actor;
}

const HOOK_WORDS: readonly (readonly [pattern: RegExp, title: string])[] = [
  [/^post \/v0\/webhooks$/, 'Created a webhook'],
  [/^put \S+\/notifications$/, 'Changed the notifications'],
  [/^put /, 'Edited a webhook'],
  [/^patch .* on$/, 'Switched a webhook on'],
  [/^patch .* off$/, 'Switched a webhook off'],
  [/^delete \S+\/addresses/, 'Removed addresses from a webhook'],
  [/^delete /, 'Deleted a webhook'],
  [/\/addresses/, 'Added addresses to a webhook'],
  [/\/secret\/rotate/, 'Renewed the signing secret of a webhook'],
  [/\/test/, 'Sent a test event'],
  [/\/deliveries\/\S+\/(resend|replay)$/, 'Sent a delivery now'],
  [/\/resend$/, 'Sent what was not delivered'],
  [/\/replay$/, 'Replayed blocks'],
  [/\/recover/, 'Sent failed deliveries again'],
];
const WORDS: Readonly<Record<string, string>> = {
  'session.open': 'Logged in',
  'session.close': 'Logged out',
  'session.refused': 'Log-in refused',
  'sessions.end': 'Ended all sessions',
  'projects.create': 'Created a project',
  'projects.rename': 'Renamed a project',
  'projects.disable': 'Disabled a project',
  'projects.enable': 'Enabled a project',
  'projects.delete': 'Deleted a project',
  'projects.renew-secret': 'Renewed a dashboard secret',
  'keys.create': 'Created a key',
  'keys.revoke': 'Revoked a key',
  'keys.limit': 'Changed the limits of a key',
  'portal.link': 'Made a link to the portal',
  'portal.end': 'Ended the sessions of the portal',
  'operator.renew-token': 'Renewed the operator token',
  'operators.create': 'Created an operator',
  'operators.delete': 'Deleted an operator',
  'interfaces.put': 'Uploaded an interface',
  'interfaces.delete': 'Deleted an interface',
  'playground.airdrop': 'Airdropped on the local chain',
  'playground.transfer': 'Transferred on the local chain',
  'playground.fork': 'Forked the local chain',
  'sinks.pause': 'Paused a sink',
  'sinks.resume': 'Resumed a sink',
};

/** The id behind the name of a key; what the entry says in full is shown above it. */
const KEY_ID = / \([0-9a-f]{8}-[0-9a-f-]{27}\)/;

/** An entry in words. What nobody has words for is shown as it is. */
function sentenceOf({ action, target }: ShownAudit, names: Names): { readonly title: string; readonly detail: string } {
  const [first = '', ...rest] = target.split(': ');
  const ofProject = names.get(first);
  const details = ofProject === undefined ? target : [`in ${ofProject}`, ...rest].filter(Boolean).join(': ');
  const method = /^webhooks\.(\w+)$/.exec(action)?.[1];
  if (method !== undefined) {
    const call = `${method} ${rest.join(': ')}`;
    const id = /\/v0\/webhooks\/([0-9a-f-]{8})/.exec(call)?.[1];
    const title = HOOK_WORDS.find(([pattern]) => pattern.test(call))?.[1] ?? action;
    return {
      title,
      detail: [ofProject === undefined ? first : `in ${ofProject}`, id === undefined ? '' : `webhook ${id}…`]
        .filter(Boolean)
        .join(', '),
    };
  }
  if (action.startsWith('session'))
    return {
      title: WORDS[action] ?? action,
      detail: /^session\.refused/.test(action) ? `as ${actorOf(target, names)}` : '',
    };
  return { title: WORDS[action] ?? action, detail: action.startsWith('keys.') ? details.replace(KEY_ID, '') : details };
}
