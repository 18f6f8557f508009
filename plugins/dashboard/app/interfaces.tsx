/** Interfaces (IDLs) of programs: those that the project has uploaded, and what is known of a program. */
import { useState } from 'preact/hooks';
import { interfaceCall, type KnownInterface, type Project, type UploadedInterface } from './api.ts';
import { bytes, count, foreign, middle, number } from './format.ts';
import { Trash2, Upload } from './icons.tsx';
import { go, href } from './place.ts';
import {
  Badge,
  Button,
  Card,
  Changes,
  CheckField,
  Confirm,
  Dialog,
  Empty,
  Form,
  Head,
  IconButton,
  type LoadState,
  Name,
  SearchForm,
  Show,
  Table,
  TextArea,
  TextField,
  Time,
  type Tone,
  toast,
  useLoad,
} from './ui.tsx';

const ADDRESS = /^[1-9A-HJ-NP-Za-km-z]{32,44}$/;
const NO_ADDRESS = 'An address has 32 to 44 letters and digits of base58';
const PATH = 'interfaces';
const NAME_LETTERS = 128;

export function InterfacesPage({ project, program }: { project: Project; program: string | null }) {
  const [asks, setAsks] = useState(false);
  const [turn, setTurn] = useState(0);
  const uploads = useLoad(
    () => interfaceCall<{ readonly data: readonly UploadedInterface[] }>(project.id, 'GET', ''),
    [project.id],
  );
  const changed = () => {
    setTurn(turn + 1);
    void uploads.reload();
  };
  return (
    <>
      <Head
        title="Interfaces"
        note="The IDLs by which instructions get their names, arguments and accounts."
        actions={
          <Changes>
            <Button kind="main" icon={Upload} onClick={() => setAsks(true)}>
              Upload an interface
            </Button>
          </Changes>
        }
      />
      <SearchForm
        label="Address of a program"
        submit="Show"
        first={program ?? ''}
        problemOf={(text) => (ADDRESS.test(text) ? undefined : NO_ADDRESS)}
        onSearch={(text) => go(['p', project.id, PATH, text])}
      />
      {program !== null && <Known key={`${program} ${turn}`} project={project} program={program} />}
      <Uploads project={project} of={uploads} onChange={changed} />
      {asks && (
        <UploadDialog project={project} program={program ?? ''} onClose={() => setAsks(false)} onDone={changed} />
      )}
    </>
  );
}

const SOURCES: Readonly<Record<KnownInterface['source'], readonly [tone: Tone, text: string]>> = {
  project: ['good', 'This project'],
  folder: ['info', "The operator's folder"],
  builtIn: ['plain', 'Built in'],
  chain: ['warn', 'The program itself'],
};

/** The versions by which instructions of a program are decoded, the first source first. */
function Known({ project, program }: { project: Project; program: string }) {
  const loaded = useLoad(
    () => interfaceCall<{ readonly versions: readonly KnownInterface[] }>(project.id, 'GET', `/${program}`),
    [project.id, program],
  );
  return (
    <Card
      title={`Interfaces of ${middle(program, 6)}`}
      note="An instruction is decoded by the first version that is valid in its slot."
      flush
    >
      <Show of={loaded} lines={3}>
        {({ versions }) => (
          <Table
            caption="Known interfaces"
            keyOf={({ at }) => at}
            rows={versions.map((version, at) => ({ ...version, at }))}
            empty={
              <Empty title="No interface is known">
                The program publishes none that can be read. Upload one to see its instructions by name.
              </Empty>
            }
            columns={[
              { name: 'Name', isTitle: true, show: ({ name }) => nameOf(name) },
              {
                name: 'Source',
                show: ({ source }) => {
                  const [tone, text] = SOURCES[source];
                  return <Badge tone={tone}>{text}</Badge>;
                },
              },
              { name: 'Slots', show: slotsOf },
              { name: 'Instructions', show: ({ instructions }) => <Names of={instructions} /> },
            ]}
          />
        )}
      </Show>
    </Card>
  );
}

const nameOf = (name: string | null) =>
  name === null ? 'Without a name' : <Name text={foreign(name, NAME_LETTERS)} />;

function slotsOf({ fromSlot, toSlot }: KnownInterface): string {
  if (toSlot === null) return fromSlot === 0 ? 'All' : `From ${number(fromSlot)}`;
  return `${number(fromSlot)} to ${number(toSlot - 1)}`;
}

function Names({ of }: { of: readonly string[] | null }) {
  if (of === null) return <>None published</>;
  if (of.length === 0) return <>–</>;
  return (
    <details class="names">
      <summary>{count(of.length, 'instruction')}</summary>
      <ul>
        {of.map((name, at) => (
          <li key={at}>
            <code>
              <Name text={foreign(name, NAME_LETTERS)} />
            </code>
          </li>
        ))}
      </ul>
    </details>
  );
}

interface UploadsProps {
  readonly project: Project;
  readonly of: LoadState<{ readonly data: readonly UploadedInterface[] }>;
  readonly onChange: () => void;
}

function Uploads({ project, of, onChange }: UploadsProps) {
  const [leaving, setLeaving] = useState<UploadedInterface | null>(null);
  return (
    <Card
      title="Uploaded by this project"
      note="Used before all others in the answers, streams and webhooks of the project; nobody else sees them."
      flush
    >
      <Show of={of}>
        {({ data }) => (
          <Table
            caption="Uploaded interfaces"
            keyOf={({ programId, version }) => `${programId} ${version}`}
            rows={data}
            empty={<Empty title="No interfaces yet" />}
            columns={[
              { name: 'Name', isTitle: true, show: ({ name }) => nameOf(name) },
              {
                name: 'Program',
                show: ({ programId }) => (
                  <a class="mono" href={href(['p', project.id, PATH, programId])} title={programId}>
                    {middle(programId, 6)}
                  </a>
                ),
              },
              { name: 'Version', isNumber: true, show: ({ version }) => number(version) },
              { name: 'From slot', isNumber: true, show: ({ fromSlot }) => number(fromSlot) },
              { name: 'Size', isNumber: true, show: (one) => bytes(one.bytes) },
              { name: 'Uploaded', show: ({ createdAt }) => <Time at={createdAt} /> },
              {
                name: 'Actions',
                isActions: true,
                show: (one) => (
                  <IconButton
                    label={`Delete version ${one.version} of ${middle(one.programId, 6)}`}
                    icon={Trash2}
                    onClick={() => setLeaving(one)}
                  />
                ),
              },
            ]}
          />
        )}
      </Show>
      {leaving !== null && (
        <Confirm
          title="Delete this interface?"
          submit="Delete"
          onClose={() => setLeaving(null)}
          onConfirm={async () => {
            const { programId, version } = leaving;
            await interfaceCall(project.id, 'DELETE', `/${programId}?version=${version}`);
            toast('The interface was deleted');
            onChange();
          }}
        >
          <p>
            Version {leaving.version} of <code>{leaving.programId}</code>. Instructions of its slots are then decoded by
            the version before it, or by another source.
          </p>
        </Confirm>
      )}
    </Card>
  );
}

/** The address that an IDL names itself. */
function addressIn(idl: object): string | null {
  const { address, metadata, program } = idl as Record<string, unknown>;
  const named = [
    address,
    (metadata as { readonly address?: unknown } | undefined)?.address,
    (program as { readonly publicKey?: unknown } | undefined)?.publicKey,
  ].find((one) => typeof one === 'string' && ADDRESS.test(one));
  return typeof named === 'string' ? named : null;
}

interface UploadDialogProps {
  readonly project: Project;
  readonly program: string;
  readonly onClose: () => void;
  readonly onDone: () => void;
}

function UploadDialog({ project, program, onClose, onDone }: UploadDialogProps) {
  const [address, setAddress] = useState(program);
  const [text, setText] = useState('');
  const [isLater, setLater] = useState(false);
  const [from, setFrom] = useState('');
  const [errors, setErrors] = useState<Readonly<Record<string, string>>>({});
  const take = (next: string) => {
    setText(next);
    const idl = objectOf(next);
    if (idl !== null && address.trim() === '') setAddress(addressIn(idl) ?? '');
  };
  const upload = async () => {
    const [idl, wanted, slot] = [objectOf(text), address.trim(), from.trim()];
    const found = {
      ...(ADDRESS.test(wanted) ? {} : { address: NO_ADDRESS }),
      ...(idl === null ? { idl: 'This is not a JSON object' } : {}),
      ...(isLater && !/^\d{1,12}$/.test(slot) ? { from: 'A slot is a whole number' } : {}),
    };
    setErrors(found);
    if (Object.keys(found).length > 0) return;
    await interfaceCall(project.id, 'PUT', `/${wanted}`, { idl, ...(isLater ? { fromSlot: Number(slot) } : {}) });
    toast('The interface is used from now on');
    onDone();
    onClose();
    go(['p', project.id, PATH, wanted]);
  };
  return (
    <Dialog title="Upload an interface" wide onClose={onClose}>
      <Form submit="Upload" onSubmit={upload} onCancel={onClose}>
        <TextArea
          label="IDL"
          rows={8}
          error={errors['idl']}
          hint="JSON of Anchor, Codama or Shank, pasted or from a file."
          value={text}
          onValue={take}
          file={{ label: 'File with an IDL', button: 'Choose a file', accept: '.json,application/json', onText: take }}
        />
        <TextField
          label="Address of the program"
          value={address}
          error={errors['address']}
          autoComplete="off"
          autoCapitalize="off"
          spellcheck={false}
          hint="Filled in if the IDL names it."
          onValue={setAddress}
        />
        <CheckField
          label="Only from a slot on"
          hint="Earlier transactions keep the versions before it."
          checked={isLater}
          onChecked={setLater}
        />
        {isLater && (
          <TextField label="First slot" inputMode="numeric" value={from} error={errors['from']} onValue={setFrom} />
        )}
      </Form>
    </Dialog>
  );
}

function objectOf(text: string): object | null {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : null;
  } catch {
    return null;
  }
}
