import { useState } from 'preact/hooks';
import { messageOf } from '../../../src/lib/coded-error.ts';
import { get, type NamedOperator, post, remove } from './api.ts';
import { utc } from './format.ts';
import { Plus, Trash2 } from './icons.tsx';
import {
  Badge,
  Button,
  Card,
  Changes,
  Confirm,
  Dialog,
  Empty,
  type Errors,
  Form,
  Head,
  Menu,
  SecretDialog,
  SelectField,
  Show,
  Table,
  TextField,
  Time,
  toast,
  useLoad,
} from './ui.tsx';

const ROLES = {
  operator: 'Operator: may change everything',
  viewer: 'Viewer: sees everything, changes nothing',
} as const;

/** Who has a token of their own. */
export function OperatorsPage() {
  const operators = useLoad(() => get<{ operators: readonly NamedOperator[] }>('/operators'), []);
  const [isNew, setNew] = useState(false);
  const [token, setToken] = useState<string | null>(null);
  const [deletes, setDeletes] = useState<string | null>(null);
  const create = (
    <Changes>
      <Button kind="main" icon={Plus} onClick={() => setNew(true)}>
        New operator
      </Button>
    </Changes>
  );
  return (
    <>
      <Head
        title="Operators"
        note="People and programs with a token of their own. The audit log names them."
        actions={create}
      />
      <Card flush>
        <Show of={operators}>
          {(found) => (
            <Table
              caption="Operators"
              tools="operators"
              keyOf={({ name }) => name}
              rows={found.operators}
              empty={
                <Empty title="No named operators" action={create}>
                  Everybody who has the operator token is the same operator. Give each person a token, to see who
                  changed what.
                </Empty>
              }
              columns={[
                { name: 'Name', isTitle: true, value: ({ name }) => name, show: ({ name }) => name },
                {
                  name: 'Role',
                  value: ({ role }) => role,
                  show: ({ role }) => <Badge tone={role === 'operator' ? 'info' : 'plain'}>{role}</Badge>,
                },
                {
                  name: 'Created',
                  value: ({ createdAt }) => utc(createdAt),
                  show: ({ createdAt }) => <Time at={createdAt} />,
                },
                {
                  name: 'Actions',
                  isActions: true,
                  show: ({ name }) => (
                    <Menu
                      label={`Actions for ${name}`}
                      items={[{ label: 'Delete…', icon: Trash2, isDanger: true, onSelect: () => setDeletes(name) }]}
                    />
                  ),
                },
              ]}
            />
          )}
        </Show>
      </Card>
      {isNew && (
        <OperatorDialog
          onClose={() => setNew(false)}
          onDone={async (made) => {
            setToken(made);
            await operators.reload();
          }}
        />
      )}
      {token !== null && (
        <SecretDialog
          title="Operator token"
          what="The operator logs in with this token."
          secret={token}
          onClose={() => setToken(null)}
        />
      )}
      {deletes !== null && (
        <Confirm
          title={`Delete ${deletes}?`}
          submit="Delete"
          onClose={() => setDeletes(null)}
          onConfirm={async () => {
            await remove(`/operators/${deletes}`);
            toast(`Operator ${deletes} deleted`);
            await operators.reload();
          }}
        >
          <p>The token stops working and the sessions of this operator end. The audit log keeps the name.</p>
        </Confirm>
      )}
    </>
  );
}

function OperatorDialog({ onClose, onDone }: { onClose: () => void; onDone: (token: string) => Promise<void> }) {
  const [name, setName] = useState('');
  const [role, setRole] = useState<NamedOperator['role']>('viewer');
  const [errors, setErrors] = useState<Errors>({});
  return (
    <Dialog title="New operator" onClose={onClose}>
      <Form
        submit="Create operator"
        onCancel={onClose}
        onSubmit={async () => {
          if (!/^[a-z0-9][a-z0-9._-]{0,63}$/.test(name))
            return setErrors({ name: 'Up to 64 of a-z, 0-9, dot, dash and underscore' });
          let made: { readonly token: string };
          try {
            made = await post<{ readonly token: string }>('/operators', { name, role });
          } catch (error) {
            return setErrors({ name: messageOf(error) });
          }
          onClose();
          await onDone(made.token);
        }}
      >
        <TextField
          label="Name"
          maxLength={64}
          autoFocus
          autoComplete="off"
          spellcheck={false}
          error={errors['name']}
          value={name}
          onValue={setName}
        />
        <SelectField
          label="Role"
          value={role}
          options={[
            ['viewer', ROLES.viewer],
            ['operator', ROLES.operator],
          ]}
          onValue={(value) => setRole(value === 'operator' ? 'operator' : 'viewer')}
        />
      </Form>
    </Dialog>
  );
}
