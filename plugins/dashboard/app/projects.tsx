import { useState } from 'preact/hooks';
import { messageOf } from '../../../src/lib/coded-error.ts';
import { type Choices, get, type Key, type Project, patch, post, put, remove } from './api.ts';
import { day, utc } from './format.ts';
import { Ban, CircleCheck, KeyRound, Pencil, Plus, ShieldCheck, Trash2, Webhook } from './icons.tsx';
import { go, href, useWorld } from './place.ts';
import {
  Badge,
  Button,
  Card,
  Changes,
  Confirm,
  Dialog,
  Empty,
  type Errors,
  Field,
  Form,
  Head,
  Id,
  Menu,
  PickField,
  SecretDialog,
  SelectField,
  Show,
  Table,
  TextField,
  Time,
  toast,
  useLoad,
} from './ui.tsx';

const DAY_MS = 86_400_000;

/** All projects, for operators. */
export function ProjectsPage() {
  const { projects, plans, reloadProjects } = useWorld();
  const [isNew, setNew] = useState(false);
  const [renews, setRenews] = useState<Project | null>(null);
  const [secret, setSecret] = useState<string | null>(null);
  const [renames, setRenames] = useState<Project | null>(null);
  const [disables, setDisables] = useState<Project | null>(null);
  const [deletes, setDeletes] = useState<Project | null>(null);
  const enable = async (project: Project) => {
    await patch(`/projects/${project.id}`, { isDisabled: false });
    toast(`Project ${project.name} enabled`);
    await reloadProjects();
  };
  const create = (
    <Changes>
      <Button kind="main" icon={Plus} onClick={() => setNew(true)}>
        New project
      </Button>
    </Changes>
  );
  return (
    <>
      <Head title="Projects" note="Each has its own keys, webhooks, credits and limits" actions={create} />
      <Card flush>
        <Table
          caption="Projects"
          tools="projects"
          keyOf={({ id }) => id}
          rows={projects}
          empty={<Empty title="No projects yet" action={create} />}
          columns={[
            {
              name: 'Name',
              isTitle: true,
              value: ({ id, name }) => (name === '' ? id : name),
              show: ({ id, name }) => <a href={href(['p', id, 'keys'])}>{name === '' ? id : name}</a>,
            },
            { name: 'Id', value: ({ id }) => id, show: ({ id }) => <Id text={id} kept={4} /> },
            { name: 'Plan', value: ({ plan }) => plan, show: ({ plan }) => plan },
            {
              name: 'State',
              value: ({ isDisabled }) => (isDisabled ? 'disabled' : 'active'),
              show: ({ isDisabled }) =>
                isDisabled ? <Badge tone="warn">disabled</Badge> : <Badge tone="good">active</Badge>,
            },
            {
              name: 'Requests, 7 days',
              isNumber: true,
              value: ({ recentRequests }) => recentRequests,
              show: ({ recentRequests }) => recentRequests.toLocaleString('en-US'),
            },
            {
              name: 'Last use',
              value: ({ lastUse }) => lastUse ?? '',
              show: ({ lastUse }) => (lastUse === null ? '–' : <span class="one-line">{lastUse}</span>),
            },
            {
              name: 'Created',
              isMinor: true,
              value: ({ createdAt }) => utc(createdAt),
              show: ({ createdAt }) => <Time at={createdAt} />,
            },
            {
              name: 'Actions',
              isActions: true,
              show: (project) => (
                <Menu
                  label={`Actions for ${project.name}`}
                  items={[
                    { label: 'API keys', icon: KeyRound, onSelect: () => go(['p', project.id, 'keys']) },
                    { label: 'Webhooks', icon: Webhook, onSelect: () => go(['p', project.id, 'webhooks']) },
                    { label: 'New dashboard secret…', icon: ShieldCheck, onSelect: () => setRenews(project) },
                    { label: 'Rename…', icon: Pencil, onSelect: () => setRenames(project) },
                    ...(project.isDisabled
                      ? [
                          { label: 'Enable', icon: CircleCheck, onSelect: () => enable(project) },
                          { label: 'Delete…', icon: Trash2, isDanger: true, onSelect: () => setDeletes(project) },
                        ]
                      : [{ label: 'Disable…', icon: Ban, isDanger: true, onSelect: () => setDisables(project) }]),
                  ]}
                />
              ),
            },
          ]}
        />
      </Card>
      {isNew && <ProjectDialog plans={plans} onClose={() => setNew(false)} onDone={reloadProjects} />}
      {renames !== null && <RenameDialog project={renames} onClose={() => setRenames(null)} onDone={reloadProjects} />}
      {disables !== null && (
        <Confirm
          title={`Disable ${disables.name}?`}
          submit="Disable"
          onClose={() => setDisables(null)}
          onConfirm={async () => {
            await patch(`/projects/${disables.id}`, { isDisabled: true });
            toast(`Project ${disables.name} disabled`);
            await reloadProjects();
          }}
        >
          <p>
            Its keys stop working at once and its websockets are closed. Its data is kept, and deliveries of its
            webhooks wait until the project is enabled again.
          </p>
        </Confirm>
      )}
      {deletes !== null && <DeleteDialog project={deletes} onClose={() => setDeletes(null)} onDone={reloadProjects} />}
      {renews !== null && (
        <Confirm
          title={`New dashboard secret for ${renews.name}?`}
          submit="Create secret"
          onClose={() => setRenews(null)}
          onConfirm={async () => setSecret((await post<{ secret: string }>(`/projects/${renews.id}/secret`)).secret)}
        >
          <p>
            The owner of the project logs in with the project's id and this secret. An earlier secret stops working, and
            its sessions end.
          </p>
        </Confirm>
      )}
      {secret !== null && (
        <SecretDialog
          title="Dashboard secret"
          what="The owner of the project logs in with the project's id and this secret."
          secret={secret}
          onClose={() => setSecret(null)}
        />
      )}
    </>
  );
}

/** The plan that the command line chooses. */
const USUAL_PLAN = 'unlimited';

function ProjectDialog({
  plans,
  onClose,
  onDone,
}: {
  plans: readonly string[];
  onClose: () => void;
  onDone: () => Promise<void>;
}) {
  const [name, setName] = useState('');
  const [plan, setPlan] = useState(plans.includes(USUAL_PLAN) ? USUAL_PLAN : (plans[0] ?? ''));
  const [errors, setErrors] = useState<Errors>({});
  return (
    <Dialog title="New project" onClose={onClose}>
      <Form
        submit="Create project"
        onCancel={onClose}
        onSubmit={async () => {
          if (name.trim() === '') return setErrors({ name: 'Give the project a name' });
          const made = await post<Project>('/projects', { name: name.trim(), plan });
          toast(`Project ${made.name} created`);
          await onDone();
          onClose();
          go(['p', made.id, 'keys']);
        }}
      >
        <TextField label="Name" maxLength={128} autoFocus error={errors['name']} value={name} onValue={setName} />
        <SelectField label="Plan" value={plan} options={plans.map((one) => [one, one] as const)} onValue={setPlan} />
      </Form>
    </Dialog>
  );
}

function RenameDialog({ project, onClose, onDone }: ProjectDialogProps) {
  const [name, setName] = useState(project.name);
  const [errors, setErrors] = useState<Errors>({});
  return (
    <Dialog title="Rename project" onClose={onClose}>
      <Form
        submit="Rename"
        onCancel={onClose}
        onSubmit={async () => {
          if (name.trim() === '') return setErrors({ name: 'Give the project a name' });
          await patch(`/projects/${project.id}`, { name: name.trim() });
          toast('Project renamed');
          await onDone();
          onClose();
        }}
      >
        <TextField label="Name" maxLength={128} autoFocus error={errors['name']} value={name} onValue={setName} />
      </Form>
    </Dialog>
  );
}

/** Asks for the name, because nothing brings the project back. */
function DeleteDialog({ project, onClose, onDone }: ProjectDialogProps) {
  const [name, setName] = useState('');
  const [errors, setErrors] = useState<Errors>({});
  return (
    <Dialog title={`Delete ${project.name}?`} onClose={onClose}>
      <Form
        submit="Delete project"
        isDanger
        onCancel={onClose}
        onSubmit={async () => {
          if (name.trim() !== project.name) return setErrors({ name: 'This is not the name of the project' });
          await remove(`/projects/${project.id}`);
          toast(`Project ${project.name} deleted`);
          await onDone();
          onClose();
        }}
      >
        <p>
          Its keys, its webhooks with their waiting deliveries, and the wallets that only this project uses are deleted.
          Its usage stays. This cannot be undone.
        </p>
        <TextField
          label={`Type ${project.name} to confirm`}
          autoFocus
          autoComplete="off"
          spellcheck={false}
          error={errors['name']}
          value={name}
          onValue={setName}
        />
      </Form>
    </Dialog>
  );
}

interface ProjectDialogProps {
  readonly project: Project;
  readonly onClose: () => void;
  readonly onDone: () => Promise<void>;
}

// ---------------------------------------------------------------------------------------------------------------- keys

const KEY_TONES = { active: 'good', revoked: 'plain', expired: 'warn' } as const;

export function KeysPage({ project }: { project: Project }) {
  const keys = useLoad(() => get<{ keys: readonly Key[] }>(`/projects/${project.id}/keys`), [project.id], 10_000);
  const [isNew, setNew] = useState(false);
  const [changes, setChanges] = useState<Key | null>(null);
  const [revokes, setRevokes] = useState<Key | null>(null);
  const create = (
    <Changes>
      <Button kind="main" icon={Plus} onClick={() => setNew(true)}>
        New key
      </Button>
    </Changes>
  );
  return (
    <>
      <Head title="API keys" note={`of ${project.name}`} actions={create} />
      <Card flush>
        <Show of={keys}>
          {(found) => (
            <Table
              caption="API keys"
              tools="keys"
              keyOf={({ id }) => id}
              rows={[...found.keys].sort(
                (a, b) => Number(b.state === 'active') - Number(a.state === 'active') || b.createdAt - a.createdAt,
              )}
              empty={
                <Empty title="No keys yet" action={create}>
                  Clients send a key with each call.
                </Empty>
              }
              columns={[
                {
                  name: 'Key',
                  isTitle: true,
                  value: ({ name, prefix }) => `${name} ${prefix}`.trim(),
                  show: ({ name, prefix }) => (
                    <>
                      {name !== '' && <span class="strong">{name} </span>}
                      <code>{prefix}…</code>
                    </>
                  ),
                },
                {
                  name: 'State',
                  value: ({ state }) => state,
                  show: ({ state }) => <Badge tone={KEY_TONES[state]}>{state}</Badge>,
                },
                { name: 'Limits', show: (key) => <Limits of={key} /> },
                {
                  name: 'Last use',
                  value: ({ usedAt }) => (usedAt === null ? null : utc(usedAt)),
                  show: ({ usedAt }) => (usedAt === null ? 'never' : <Time at={usedAt} />),
                },
                {
                  name: 'Created',
                  value: ({ createdAt }) => utc(createdAt),
                  show: ({ createdAt }) => <Time at={createdAt} />,
                },
                {
                  name: 'Expires',
                  value: ({ expiresAt }) => (expiresAt === null ? null : utc(expiresAt)),
                  show: ({ expiresAt }) =>
                    expiresAt === null ? (
                      'never'
                    ) : (
                      <time title={`${utc(expiresAt)} UTC`}>{utc(expiresAt).slice(0, 10)}</time>
                    ),
                },
                {
                  name: 'Actions',
                  isActions: true,
                  show: (key) =>
                    key.state === 'active' ? (
                      <Menu
                        label={`Actions for ${key.name === '' ? key.prefix : key.name}`}
                        items={[
                          { label: 'Change limits…', icon: ShieldCheck, onSelect: () => setChanges(key) },
                          { label: 'Revoke…', icon: Ban, isDanger: true, onSelect: () => setRevokes(key) },
                        ]}
                      />
                    ) : null,
                },
              ]}
            />
          )}
        </Show>
      </Card>
      {isNew && <KeyDialog project={project} of={null} onClose={() => setNew(false)} onDone={keys.reload} />}
      {changes !== null && (
        <KeyDialog project={project} of={changes} onClose={() => setChanges(null)} onDone={keys.reload} />
      )}
      {revokes !== null && (
        <Confirm
          title="Revoke this key?"
          submit="Revoke"
          onClose={() => setRevokes(null)}
          onConfirm={async () => {
            await post(`/projects/${project.id}/keys/${revokes.id}/revoke`);
            toast('Key revoked');
            await keys.reload();
          }}
        >
          <p>
            Calls with <code>{revokes.prefix}…</code> are refused from now on, and its websockets are closed. This
            cannot be undone.
          </p>
        </Confirm>
      )}
    </>
  );
}

function Limits({ of: { permissions, ips, origins } }: { of: Key }) {
  const parts = [
    permissions === null ? null : ['Permissions', permissions],
    ips === null ? null : ['From', ips],
    origins === null ? null : ['Origins', origins],
  ].filter((one): one is [string, readonly string[]] => one !== null);
  if (parts.length === 0) return <span class="soft">none</span>;
  return (
    <ul class="limits">
      {parts.map(([name, list]) => (
        <li key={name}>
          <span class="soft">{name}:</span> {list.length === 0 ? 'none' : list.join(', ')}
        </li>
      ))}
    </ul>
  );
}

const linesOf = (text: string): readonly string[] | null => {
  const items = text.split(/[\s,]+/).filter(Boolean);
  return items.length === 0 ? null : items;
};
const textOf = (list: readonly string[] | null): string => list?.join('\n') ?? '';

interface KeyDraft {
  readonly name: string;
  readonly permissions: readonly string[];
  readonly ips: string;
  readonly origins: string;
  readonly expires: string;
}

/** Fields by the words of the daemon's refusals. */
const REFUSED_FIELDS: readonly (readonly [RegExp, keyof KeyDraft])[] = [
  [/permission/i, 'permissions'],
  [/network|address/i, 'ips'],
  [/origin/i, 'origins'],
  [/expir/i, 'expires'],
];

function KeyDialog({
  project,
  of,
  onClose,
  onDone,
}: {
  project: Project;
  of: Key | null;
  onClose: () => void;
  onDone: () => Promise<void>;
}) {
  const [draft, setDraft] = useState<KeyDraft>({
    name: '',
    permissions: of?.permissions ?? [],
    ips: textOf(of?.ips ?? null),
    origins: textOf(of?.origins ?? null),
    expires: '',
  });
  const [errors, setErrors] = useState<Errors>({});
  const [secret, setSecret] = useState<string | null>(null);
  const choices = useLoad(() => get<Choices>('/choices'), []);
  const set =
    <K extends keyof KeyDraft>(name: K) =>
    (value: KeyDraft[K]) => {
      setDraft((before) => ({ ...before, [name]: value }));
      setErrors(({ [name]: _gone, ...rest }) => rest);
    };

  async function save(): Promise<void> {
    const limits = {
      permissions: draft.permissions.length === 0 ? null : draft.permissions,
      ips: linesOf(draft.ips),
      origins: linesOf(draft.origins),
    };
    try {
      if (of === null) {
        const expiresAt = draft.expires === '' ? null : Date.parse(`${draft.expires}T00:00:00Z`);
        const made = await post<{ key: string }>(`/projects/${project.id}/keys`, {
          name: draft.name.trim(),
          expiresAt,
          ...limits,
        });
        setSecret(made.key);
      } else {
        await put(`/projects/${project.id}/keys/${of.id}/limits`, limits);
        toast('Limits saved');
        onClose();
      }
      await onDone();
    } catch (error) {
      const text = messageOf(error);
      const field = REFUSED_FIELDS.find(([pattern]) => pattern.test(text));
      if (field === undefined) throw error;
      setErrors({ [field[1]]: text });
    }
  }

  // In place of the form, not above it.
  if (secret !== null)
    return (
      <SecretDialog
        title="New key"
        what="Clients send it as api-key in the query, or in the header X-Api-Key."
        secret={secret}
        onClose={onClose}
      />
    );
  return (
    <Dialog
      title={of === null ? 'New key' : `Limits of ${of.name === '' ? of.prefix : of.name}`}
      wide
      onClose={onClose}
    >
      <Form submit={of === null ? 'Create key' : 'Save'} onSubmit={save} onCancel={onClose}>
        {of === null && (
          <TextField
            label="Name"
            maxLength={128}
            autoFocus
            hint="For you, to tell keys apart."
            value={draft.name}
            onValue={set('name')}
          />
        )}
        <PickField
          label="Permissions"
          hint="All, if none is chosen"
          options={choices.data?.permissions ?? []}
          value={draft.permissions}
          error={errors['permissions']}
          onValue={set('permissions')}
        />
        <LinesField
          label="IP addresses"
          hint="Of clients, or networks such as 10.0.0.0/8. Empty: all."
          error={errors['ips']}
          value={draft.ips}
          onValue={set('ips')}
        />
        <LinesField
          label="Origins"
          hint="Web pages that may use the key in a browser, such as https://app.example.com. Empty: all."
          error={errors['origins']}
          value={draft.origins}
          onValue={set('origins')}
        />
        {of === null && (
          <TextField
            label="Expires on"
            type="date"
            min={day(Date.now() + DAY_MS)}
            hint="At the beginning of this day (UTC), tomorrow at the earliest. Empty: never."
            error={errors['expires']}
            value={draft.expires}
            onValue={set('expires')}
          />
        )}
      </Form>
    </Dialog>
  );
}

function LinesField({
  label,
  hint,
  error,
  value,
  onValue,
}: {
  label: string;
  hint: string;
  error: string | undefined;
  value: string;
  onValue: (value: string) => void;
}) {
  return (
    <Field label={label} hint={hint} error={error}>
      {(own) => (
        <textarea
          {...own}
          rows={2}
          spellcheck={false}
          class="mono"
          value={value}
          onInput={(event) => onValue(event.currentTarget.value)}
        />
      )}
    </Field>
  );
}
