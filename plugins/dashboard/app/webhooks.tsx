import { useState } from 'preact/hooks';
import { messageOf } from '../../../src/lib/coded-error.ts';
import {
  type Choices,
  get,
  type HookHealth,
  hookCall,
  type ParsedFilterInput,
  type Project,
  type ShownWebhook,
} from './api.ts';
import { ago, count, duration } from './format.ts';
import { Bell, FlaskConical, Pencil, Plus, Power, RefreshCw, Trash2 } from './icons.tsx';
import { go, href, useWorld } from './place.ts';
import {
  Button,
  breakable,
  Card,
  Changes,
  CheckField,
  Confirm,
  Dialog,
  Empty,
  type Errors,
  Form,
  Head,
  Menu,
  type MenuItem,
  PickField,
  SecretDialog,
  SelectField,
  Show,
  Table,
  TextArea,
  TextField,
  Time,
  toast,
  useLoad,
} from './ui.tsx';
import { HealthBars, HookState, isLow, rateText, Waiting } from './webhook-health.tsx';

const REFRESH_MS = 10_000;

const TYPE_NAMES: Readonly<Record<string, string>> = {
  enhanced: 'Enhanced',
  raw: 'Raw',
  discord: 'Discord',
  parsed: 'Parsed',
  enhancedDevnet: 'Enhanced, devnet',
  rawDevnet: 'Raw, devnet',
  discordDevnet: 'Discord, devnet',
};
export const typeName = (type: string): string => TYPE_NAMES[type] ?? type;

/** Without types, or with ANY, all transactions match; those of a parsed webhook by the names of their instructions. */
export function transactionText({ transactionTypes: types, parsedFilter }: ShownWebhook): string {
  const names = parsedFilter?.instructionNames?.length ?? 0;
  if (parsedFilter != null) return names === 0 ? 'all instructions' : count(names, 'instruction');
  return types.length === 0 || types.includes('ANY') ? 'all types' : count(types.length, 'type');
}

/** Number of addresses; for a parsed webhook, of programs and accounts in its filter. */
export const addressCountOf = ({ addressCount, parsedFilter }: ShownWebhook): number =>
  parsedFilter == null
    ? addressCount
    : (parsedFilter.programs?.length ?? 0) +
      (parsedFilter.accounts?.include?.length ?? 0) +
      Object.keys(parsedFilter.accounts?.roles ?? {}).length;

export function WebhooksPage({ project }: { project: Project }) {
  const hooks = useLoad(() => hookCall<readonly ShownWebhook[]>(project.id, 'GET', ''), [project.id], REFRESH_MS);
  const healths = useLoad(
    () => hookCall<readonly HookHealth[]>(project.id, 'GET', '/health'),
    [project.id],
    REFRESH_MS,
  );
  const healthOf = ({ webhookID }: ShownWebhook) => healths.data?.find((one) => one.webhookID === webhookID);
  const ofHealth = (hook: ShownWebhook, show: (health: HookHealth) => preact.ComponentChildren) => {
    const health = healthOf(hook);
    return health === undefined ? '–' : show(health);
  };
  const [isNew, setNew] = useState(false);
  const actions = useHookActions(project, hooks.reload);
  const [tells, setTells] = useState(false);
  const create = (
    <Changes>
      <Button kind="main" icon={Plus} onClick={() => setNew(true)}>
        New webhook
      </Button>
    </Changes>
  );
  const buttons = (
    <Changes>
      <Button icon={Bell} onClick={() => setTells(true)}>
        Notifications…
      </Button>
      {create}
    </Changes>
  );
  return (
    <>
      <Head title="Webhooks" note={`of ${project.name}`} actions={buttons} />
      <Card flush>
        <Show of={hooks}>
          {(all) => (
            <Table
              tools="webhooks"
              caption="Webhooks"
              keyOf={({ webhookID }) => webhookID}
              rows={all}
              empty={
                <Empty title="No webhooks yet" action={create}>
                  A webhook posts each transaction of its addresses to a URL, until the receiver has it.
                </Empty>
              }
              columns={[
                {
                  name: 'Webhook',
                  isTitle: true,
                  value: ({ name, webhookURL }) => `${name ?? ''} ${webhookURL}`.trim(),
                  show: ({ name, webhookURL, webhookID }) => (
                    <>
                      <a
                        class={name === undefined ? 'mono' : 'strong'}
                        href={href(['p', project.id, 'webhooks', webhookID])}
                      >
                        {name ?? breakable(webhookURL)}
                      </a>
                      {name !== undefined && <div class="mono soft small">{breakable(webhookURL)}</div>}
                    </>
                  ),
                },
                {
                  name: 'State',
                  value: (hook) => healthOf(hook)?.state ?? (hook.active ? 'on' : 'off'),
                  show: (hook) => <HookState hook={hook} health={healthOf(hook)} />,
                },
                {
                  name: 'Success, 24 h',
                  isNumber: true,
                  value: (hook) => healthOf(hook)?.successRate ?? null,
                  show: (hook) =>
                    ofHealth(hook, (health) => (
                      <span class={isLow(health) ? 'bad' : undefined}>{rateText(health)}</span>
                    )),
                },
                {
                  name: 'Last delivery',
                  value: (hook) => healthOf(hook)?.lastDeliveredAt ?? null,
                  show: (hook) => ofHealth(hook, ({ lastDeliveredAt }) => <Time at={lastDeliveredAt} />),
                },
                {
                  name: 'Waiting',
                  value: (hook) => healthOf(hook)?.waiting ?? null,
                  show: (hook) => ofHealth(hook, (health) => <Waiting health={health} />),
                },
                {
                  name: '28 days',
                  isMinor: true,
                  show: (hook) => ofHealth(hook, (health) => <HealthBars health={health} />),
                },
                {
                  name: 'Type',
                  isMinor: true,
                  value: ({ webhookType }) => typeName(webhookType),
                  show: (hook) => (
                    <div>
                      {typeName(hook.webhookType)}
                      <div class="soft small">{transactionText(hook)}</div>
                    </div>
                  ),
                },
                {
                  name: 'Actions',
                  isActions: true,
                  show: (hook) => (
                    <Menu label={`Actions for ${hook.name ?? hook.webhookURL}`} items={actions.of(hook)} />
                  ),
                },
              ]}
            />
          )}
        </Show>
      </Card>
      {isNew && <HookDialog project={project} hook={null} onClose={() => setNew(false)} onDone={hooks.reload} />}
      {tells && <NotificationsDialog project={project} onClose={() => setTells(false)} />}
      {actions.dialogs}
    </>
  );
}

interface Contact {
  readonly url: string | null;
  readonly format: string | null;
}

/** Where the project is told when a webhook fails. */
function NotificationsDialog({ project, onClose }: { project: Project; onClose: () => void }) {
  const contact = useLoad(() => hookCall<Contact>(project.id, 'GET', '/notifications'), [project.id]);
  return (
    <Dialog title="Notifications" onClose={onClose}>
      <Show of={contact} lines={3}>
        {(found) => <NotificationsForm project={project} contact={found} onClose={onClose} />}
      </Show>
    </Dialog>
  );
}

function NotificationsForm({ project, contact, onClose }: { project: Project; contact: Contact; onClose: () => void }) {
  const [url, setUrl] = useState((contact.url ?? '').replace(/^mailto:/, ''));
  const [format, setFormat] = useState(contact.format ?? 'slack');
  const [error, setError] = useState<string | undefined>();
  const isMail = format === 'email';
  const save = async () => {
    try {
      const body = url.trim() === '' ? { url: null } : { url: url.trim(), format };
      await hookCall(project.id, 'PUT', '/notifications', body);
    } catch (problem) {
      setError(capital(messageOf(problem).replace(/^(url|format):? /, '')));
      return;
    }
    toast(url.trim() === '' ? 'Notifications are off' : 'Notifications are on');
    onClose();
  };
  return (
    <Form submit="Save" onSubmit={save} onCancel={onClose}>
      <p>You are told when a webhook of this project fails, works again, or was switched off.</p>
      <TextField
        label={isMail ? 'E-mail address' : 'URL'}
        type={isMail ? 'email' : 'url'}
        autoFocus
        placeholder={isMail ? 'ada@example.org' : 'https://hooks.slack.com/services/…'}
        hint="Leave it empty for no notifications."
        error={error}
        value={url}
        onValue={(next) => {
          setUrl(next);
          setError(undefined);
        }}
      />
      <SelectField
        label="Form"
        value={format}
        options={[
          ['slack', 'Message of Slack or Mattermost'],
          ['email', 'E-mail'],
          ['json', 'JSON'],
        ]}
        onValue={setFormat}
      />
    </Form>
  );
}

interface TestResult {
  readonly delivered: boolean;
  readonly statusCode: number | null;
  readonly durationMs: number;
  readonly failure: string | null;
}

const FAILURES: Readonly<Record<string, string>> = {
  timeout: 'no answer in time',
  connection: 'the connection failed',
  dns: 'its name is not found',
  tls: 'its certificate was refused',
  blocked_address: 'its address is not allowed',
  unsendable: 'it cannot be sent',
  http_status: 'it refused',
};

/** Why an attempt failed. */
export const failureText = (failure: string | null, statusCode: number | null): string =>
  statusCode === null ? (FAILURES[failure ?? ''] ?? failure ?? 'unknown') : `the receiver answered ${statusCode}`;

/** What can be done with a webhook, and the dialogs for it. */
export function useHookActions(project: Project, changed: () => Promise<void>, afterDelete: () => void = () => {}) {
  const [open, setOpen] = useState<{ readonly what: 'edit' | 'delete' | 'rotate'; readonly hook: ShownWebhook } | null>(
    null,
  );
  const [secret, setSecret] = useState<string | null>(null);
  const close = () => setOpen(null);
  const on = (hook: ShownWebhook) => `/${hook.webhookID}`;

  async function test(hook: ShownWebhook): Promise<void> {
    const result = await hookCall<TestResult>(project.id, 'POST', `${on(hook)}/test`, {});
    if (result.delivered)
      toast(`Test event delivered: the receiver answered ${result.statusCode} after ${duration(result.durationMs)}`);
    else toast(`Test event not delivered: ${failureText(result.failure, result.statusCode)}`, 'bad');
  }
  async function toggle(hook: ShownWebhook): Promise<void> {
    await hookCall(project.id, 'PATCH', on(hook), { active: !hook.active });
    toast(hook.active ? 'Webhook switched off' : 'Webhook switched on');
    await changed();
  }
  const of = (hook: ShownWebhook): readonly MenuItem[] => [
    { label: 'Send a test event', icon: FlaskConical, onSelect: () => test(hook) },
    { label: 'Edit…', icon: Pencil, onSelect: () => setOpen({ what: 'edit', hook }) },
    { label: hook.active ? 'Switch off' : 'Switch on', icon: Power, onSelect: () => toggle(hook) },
    { label: 'Renew the signing secret…', icon: RefreshCw, onSelect: () => setOpen({ what: 'rotate', hook }) },
    { label: 'Delete…', icon: Trash2, isDanger: true, onSelect: () => setOpen({ what: 'delete', hook }) },
  ];
  const dialogs = (
    <>
      {open?.what === 'edit' && <HookDialog project={project} hook={open.hook} onClose={close} onDone={changed} />}
      {open?.what === 'delete' && (
        <Confirm
          title="Delete this webhook?"
          submit="Delete"
          onClose={close}
          onConfirm={async () => {
            await hookCall(project.id, 'DELETE', on(open.hook));
            toast('Webhook deleted');
            afterDelete();
            await changed();
          }}
        >
          <p>
            <code>{open.hook.webhookURL}</code> gets nothing more, and its waiting deliveries are dropped.
          </p>
        </Confirm>
      )}
      {open?.what === 'rotate' && (
        <Confirm
          title="Renew the signing secret?"
          submit="Renew"
          onClose={close}
          onConfirm={async () => {
            const made = await hookCall<{ signingSecret: string; previousExpiresAt: string }>(
              project.id,
              'POST',
              `${on(open.hook)}/secret/rotate`,
              {},
            );
            setSecret(made.signingSecret);
            toast(`The old secret also signs and expires ${ago(Date.parse(made.previousExpiresAt))}`);
          }}
        >
          <p>Deliveries are signed with both secrets until the old one expires, so that receivers can change over.</p>
        </Confirm>
      )}
      {secret !== null && (
        <SecretDialog
          title="New signing secret"
          what="Receivers verify deliveries with it."
          secret={secret}
          onClose={() => setSecret(null)}
        />
      )}
    </>
  );
  return { of, dialogs, test };
}

// ---------------------------------------------------------------------------------------------------------------- form

interface Draft {
  readonly name: string;
  readonly description: string;
  readonly webhookURL: string;
  readonly webhookType: string;
  readonly addresses: string;
  readonly transactionTypes: readonly string[];
  readonly authHeader: string;
  readonly txnStatus: string;
  readonly matchTokenOwners: boolean;
  readonly retryPreset: string;
  readonly batchSize: string;
  readonly ordered: boolean;
  readonly onInactive: string;
  readonly programs: string;
  readonly instructionNames: string;
  readonly roles: string;
  readonly includeFailed: boolean;
  readonly includeCpi: boolean;
  readonly parsedDetails: string;
}

/** An empty filter of a parsed webhook, as the form holds it. */
const NO_FILTER = {
  programs: '',
  instructionNames: '',
  roles: '',
  includeFailed: false,
  includeCpi: true,
  parsedDetails: 'full',
};

const NEW: Draft = {
  name: '',
  description: '',
  webhookURL: '',
  webhookType: 'enhanced',
  addresses: '',
  transactionTypes: ['ANY'],
  authHeader: '',
  txnStatus: '',
  matchTokenOwners: false,
  retryPreset: 'durable',
  batchSize: '1',
  ordered: false,
  onInactive: 'drop',
  ...NO_FILTER,
};

const draftOf = (hook: ShownWebhook): Draft => ({
  ...hook,
  name: hook.name ?? '',
  description: hook.description ?? '',
  transactionTypes: hook.transactionTypes,
  addresses: (hook.parsedFilter?.accounts?.include ?? hook.accountAddresses).join('\n'),
  batchSize: String(hook.batchSize),
  ...filterDraftOf(hook.parsedFilter ?? {}),
  parsedDetails: hook.parsedDetails ?? NO_FILTER.parsedDetails,
});

const filterDraftOf = ({
  programs = [],
  instructionNames = [],
  accounts,
  includeFailed,
  includeCpi,
}: ParsedFilterInput) => ({
  programs: programs.join('\n'),
  instructionNames: instructionNames.join(', '),
  roles: Object.entries(accounts?.roles ?? {})
    .map(([name, address]) => `${name} ${address}`)
    .join('\n'),
  includeFailed: includeFailed ?? NO_FILTER.includeFailed,
  includeCpi: includeCpi ?? NO_FILTER.includeCpi,
});

/** Names may contain spaces. */
const namesOf = (text: string): readonly string[] =>
  text.split(/[,\n]/).flatMap((name) => (name.trim() === '' ? [] : [name.trim()]));

/** Pairs of a name, which may contain spaces, and an address, one on each line. */
const rolesOf = (text: string): readonly (readonly [name: string, address: string])[] =>
  text.split('\n').flatMap((line) => {
    const [, name = '', address = ''] = /^(.*?)[\s=:,]+(\S+)$/.exec(line.trim()) ?? [];
    return line.trim() === '' ? [] : [[name, address]];
  });

/** Empty lists are left out: they would match nothing. */
function filterOf({
  programs,
  instructionNames,
  addresses,
  roles,
  includeFailed,
  includeCpi,
}: Draft): ParsedFilterInput {
  const list = (name: string, values: readonly string[]) => (values.length === 0 ? {} : { [name]: values });
  const pairs = rolesOf(roles);
  const accounts = {
    ...list('include', listOf(addresses)),
    ...(pairs.length === 0 ? {} : { roles: Object.fromEntries(pairs) }),
  };
  return {
    ...list('programs', listOf(programs)),
    ...list('instructionNames', namesOf(instructionNames)),
    ...(Object.keys(accounts).length === 0 ? {} : { accounts }),
    includeFailed,
    includeCpi,
  };
}

const listOf = (text: string): readonly string[] => text.split(/[\s,;"]+/).filter(Boolean);
const ADDRESS = /^[1-9A-HJ-NP-Za-km-z]{32,44}$/;

/** What can be seen without the daemon, which checks everything again. */
function problemsOf(draft: Draft): Errors {
  const found: Record<string, string> = {};
  if (!URL.canParse(draft.webhookURL)) found['webhookURL'] = 'Give a full URL, such as https://example.com/hook';
  else if (!/^https?:$/.test(new URL(draft.webhookURL).protocol))
    found['webhookURL'] = 'The URL must begin with https://';
  const isParsed = draft.webhookType === 'parsed';
  for (const name of isParsed ? (['programs', 'addresses'] as const) : (['addresses'] as const)) {
    const list = listOf(draft[name]);
    const at = list.findIndex((address) => !ADDRESS.test(address));
    if (at >= 0) found[name] = `Entry ${at + 1} is not a Solana address: ${list[at]?.slice(0, 60)}`;
  }
  if (listOf(draft.addresses).length === 0 && !isParsed) found['addresses'] = 'Give at least one address';
  if (isParsed && listOf(draft.addresses).length + listOf(draft.programs).length === 0)
    found['programs'] = 'Give at least one program, or an account';
  const roles = rolesOf(draft.roles);
  if (isParsed && roles.some(([name, address]) => name === '' || !ADDRESS.test(address)))
    found['roles'] = 'On each line a name and an address';
  else if (isParsed && new Set(roles.map(([name]) => name)).size < roles.length) found['roles'] = 'Give each name once';
  if (!isParsed && draft.transactionTypes.length === 0)
    found['transactionTypes'] = 'Choose at least one type; ANY means all';
  if (!/^\d{1,3}$/.test(draft.batchSize) || Number(draft.batchSize) < 1 || Number(draft.batchSize) > 100)
    found['batchSize'] = 'A number from 1 to 100';
  return found;
}

/** Fields by how the daemon's refusal begins. */
const REFUSED_FIELDS: readonly (readonly [RegExp, keyof Draft])[] = [
  [/^webhookURL:? */, 'webhookURL'],
  [/^webhookType:? */, 'webhookType'],
  [/^accountAddresses/, 'addresses'],
  [/^parsedFilter:? *(?=.*\bprograms\b)/, 'programs'],
  [/^parsedFilter:? *(?=.*\binstructionNames\b)/, 'instructionNames'],
  [/^parsedFilter:? *(?=.*\broles\b)/, 'roles'],
  [/^parsedFilter:? *(?=.*\binclude\b)/, 'addresses'],
  [/^(invalid transaction type|transactionTypes)/, 'transactionTypes'],
  [/^authHeader:? */, 'authHeader'],
  [/^batchSize/, 'batchSize'],
  [/^name:? */, 'name'],
  [/^description:? */, 'description'],
];

function HookDialog({
  project,
  hook,
  onClose,
  onDone,
}: {
  project: Project;
  hook: ShownWebhook | null;
  onClose: () => void;
  onDone: () => Promise<void>;
}) {
  const whole = useLoad(
    async () => (hook === null ? null : hookCall<ShownWebhook>(project.id, 'GET', `/${hook.webhookID}`)),
    [hook?.webhookID],
  );
  return (
    <Dialog title={hook === null ? 'New webhook' : 'Edit webhook'} wide onClose={onClose}>
      {hook === null ? (
        <HookForm project={project} hook={null} onClose={onClose} onDone={onDone} />
      ) : (
        <Show of={whole} lines={6}>
          {(loaded) => <HookForm project={project} hook={loaded} onClose={onClose} onDone={onDone} />}
        </Show>
      )}
    </Dialog>
  );
}

function HookForm({
  project,
  hook,
  onClose,
  onDone,
}: {
  project: Project;
  hook: ShownWebhook | null;
  onClose: () => void;
  onDone: () => Promise<void>;
}) {
  const [draft, setDraft] = useState<Draft>(() => (hook === null ? NEW : draftOf(hook)));
  const [errors, setErrors] = useState<Errors>({});
  const [secret, setSecret] = useState<string | null>(null);
  const choices = useLoad(() => get<Choices>('/choices'), []);
  const { hasInterfaces } = useWorld();
  const isParsed = draft.webhookType === 'parsed';
  const types = Object.entries(TYPE_NAMES).filter(([type]) => type !== 'parsed' || hasInterfaces || isParsed);
  const set =
    <K extends keyof Draft>(name: K) =>
    (value: Draft[K]) => {
      setDraft((before) => ({ ...before, [name]: value }));
      setErrors(({ [name]: _gone, ...rest }) => rest);
    };

  async function save(): Promise<void> {
    const problems = problemsOf(draft);
    setErrors(problems);
    if (Object.keys(problems).length > 0) return;
    const body = bodyOf(draft);
    try {
      if (hook === null) {
        const made = await hookCall<ShownWebhook>(project.id, 'POST', '', body);
        toast('Webhook created');
        setSecret(made.signingSecret ?? null);
      } else {
        await hookCall(project.id, 'PUT', `/${hook.webhookID}`, body);
        toast('Webhook saved');
        onClose();
      }
      await onDone();
    } catch (error) {
      const refused = refusedField(messageOf(error));
      if (refused === null) throw error;
      setErrors(refused);
    }
  }

  return (
    <>
      <Form submit={hook === null ? 'Create webhook' : 'Save'} onSubmit={save} onCancel={onClose}>
        <TextField
          label="URL"
          type="url"
          autoFocus
          placeholder="https://example.com/hook"
          hint="Each event is posted there."
          error={errors['webhookURL']}
          value={draft.webhookURL}
          onValue={set('webhookURL')}
        />
        <TextField
          label="Name (optional)"
          placeholder="Deposits"
          maxLength={100}
          error={errors['name']}
          value={draft.name}
          onValue={set('name')}
        />
        <SelectField
          label="Type"
          value={draft.webhookType}
          options={types}
          {...(errors['webhookType'] === undefined ? {} : { hint: errors['webhookType'] })}
          onValue={set('webhookType')}
        />
        {isParsed ? (
          <FilterFields draft={draft} errors={errors} set={set} />
        ) : (
          <>
            <AddressField
              label="Addresses"
              value={draft.addresses}
              error={errors['addresses']}
              onValue={set('addresses')}
            />
            <PickField
              label="Transaction types"
              hint="ANY means all types. Raw webhooks get all types in any case."
              options={choices.data?.transactionTypes ?? []}
              value={draft.transactionTypes}
              error={errors['transactionTypes']}
              onValue={(names) => set('transactionTypes')(withoutAny(names, draft.transactionTypes))}
            />
          </>
        )}
        <MoreSettings draft={draft} errors={errors} set={set} />
      </Form>
      {secret !== null && (
        <SecretDialog
          title="Signing secret"
          what="The receiver verifies deliveries with it."
          secret={secret}
          onClose={onClose}
        />
      )}
    </>
  );
}

interface DraftFieldsProps {
  readonly draft: Draft;
  readonly errors: Errors;
  readonly set: <K extends keyof Draft>(name: K) => (value: Draft[K]) => void;
}

/** What most webhooks leave as it is. */
function MoreSettings({ draft, errors, set }: DraftFieldsProps) {
  return (
    <details>
      <summary>More settings</summary>
      <div class="fields">
        <TextField
          label="Description"
          maxLength={1000}
          error={errors['description']}
          value={draft.description}
          onValue={set('description')}
        />
        <TextField
          label="Authorization header"
          autoComplete="off"
          hint="Sent with each delivery, so that the receiver can refuse others."
          error={errors['authHeader']}
          value={draft.authHeader}
          onValue={set('authHeader')}
        />
        <SelectField
          label="Transactions"
          value={draft.txnStatus}
          options={[
            ['', 'As usual for the type'],
            ['all', 'Successful and failed'],
            ['success', 'Successful'],
            ['failed', 'Failed'],
          ]}
          onValue={set('txnStatus')}
        />
        <SelectField
          label="Retries"
          value={draft.retryPreset}
          options={[
            ['durable', 'Durable: over days'],
            ['compat', 'Few, as the hosted service'],
          ]}
          onValue={set('retryPreset')}
        />
        <TextField
          label="Events per request"
          inputMode="numeric"
          error={errors['batchSize']}
          hint="More than 1 sends events in batches when many wait."
          value={draft.batchSize}
          onValue={set('batchSize')}
        />
        <SelectField
          label="Events while it is off"
          value={draft.onInactive}
          options={[
            ['drop', 'Dropped'],
            ['hold', 'Held until it is on again'],
          ]}
          onValue={set('onInactive')}
        />
        <CheckField
          label="In order"
          hint="One request at a time, in the order of the chain."
          checked={draft.ordered}
          onChecked={set('ordered')}
        />
        {draft.webhookType !== 'parsed' && (
          <CheckField
            label="Owners of token accounts"
            hint="Also matches transactions that move tokens of the addresses."
            checked={draft.matchTokenOwners}
            onChecked={set('matchTokenOwners')}
          />
        )}
      </div>
    </details>
  );
}

/** A draft as the service takes it. */
function bodyOf(draft: Draft) {
  const { addresses, batchSize, txnStatus, parsedDetails } = draft;
  return {
    ...pick(draft),
    ...(draft.webhookType === 'parsed'
      ? // What another type had watched is in the filter now.
        { accountAddresses: [], parsedFilter: filterOf(draft), parsedDetails }
      : {
          accountAddresses: listOf(addresses),
          transactionTypes: draft.transactionTypes,
          matchTokenOwners: draft.matchTokenOwners,
        }),
    batchSize: Number(batchSize),
    ...(txnStatus === '' ? {} : { txnStatus }),
  };
}

/** What the service says, at the field that it is about; null: it names none. */
function refusedField(text: string): Errors | null {
  const field = REFUSED_FIELDS.find(([pattern]) => pattern.test(text));
  if (field === undefined) return null;
  return { [field[1]]: capital(text.replace(field[0].source.includes(':') ? field[0] : /^$/, '')) };
}

const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

const pick = ({ name, description, webhookURL, webhookType, authHeader, retryPreset, ordered, onInactive }: Draft) => ({
  name: name.trim(),
  description: description.trim(),
  webhookURL,
  webhookType,
  authHeader,
  retryPreset,
  ordered,
  onInactive,
});

/** Which transactions a parsed webhook gets, and how much of them. */
function FilterFields({ draft, errors, set }: DraftFieldsProps) {
  return (
    <>
      <AddressField label="Programs" value={draft.programs} error={errors['programs']} onValue={set('programs')} />
      <TextField
        label="Instructions"
        hint="Names, separated by commas. Without any, all instructions match."
        spellcheck={false}
        error={errors['instructionNames']}
        value={draft.instructionNames}
        onValue={set('instructionNames')}
      />
      <AddressField
        label="Accounts of the instruction"
        value={draft.addresses}
        error={errors['addresses']}
        onValue={set('addresses')}
      />
      <TextArea
        label="Accounts by name"
        rows={2}
        error={errors['roles']}
        hint="On each line the name in the interface and an address; all of them have to fit."
        value={draft.roles}
        onValue={set('roles')}
      />
      <SelectField
        label="Content"
        value={draft.parsedDetails}
        options={[
          ['full', 'The whole transaction'],
          ['matched', 'The instructions that match'],
          ['raw', 'The instructions that match, not decoded'],
        ]}
        onValue={set('parsedDetails')}
      />
      <CheckField
        label="Failed transactions"
        hint="They are delivered too."
        checked={draft.includeFailed}
        onChecked={set('includeFailed')}
      />
      <CheckField
        label="Calls of other instructions"
        hint="Also matches instructions that another program calls."
        checked={draft.includeCpi}
        onChecked={set('includeCpi')}
      />
    </>
  );
}

/** ANY and single types exclude each other: the one chosen last counts. */
function withoutAny(names: readonly string[], before: readonly string[]): readonly string[] {
  if (!names.includes('ANY') || names.length === 1) return names;
  return before.includes('ANY') ? names.filter((name) => name !== 'ANY') : ['ANY'];
}

/** Addresses by hand, pasted or from a file. */
function AddressField({
  label,
  value,
  error,
  onValue,
}: {
  label: string;
  value: string;
  error: string | undefined;
  onValue: (value: string) => void;
}) {
  const given = listOf(value).length;
  return (
    <TextArea
      label={label}
      rows={5}
      error={error}
      hint={given === 0 ? 'One on each line, or separated by commas.' : `${count(given, 'address', 'addresses')} given`}
      value={value}
      onValue={onValue}
      file={{
        label: `File with ${label.toLowerCase()}`,
        button: 'Add from a file',
        accept: '.txt,.csv,.json,text/plain,text/csv,application/json',
        onText(text, name) {
          const found = listOf(text.replace(/[[\]]/g, ' '));
          onValue([...listOf(value), ...found].join('\n'));
          toast(`${count(found.length, 'address', 'addresses')} read from ${name}`);
        },
      }}
    />
  );
}

export const toHooks = (project: Project): void => go(['p', project.id, 'webhooks']);
