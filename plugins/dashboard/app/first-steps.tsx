import { useState } from 'preact/hooks';
import { get, type HookHealth, hookCall, type Key, type Project } from './api.ts';
import { CircleCheck, X } from './icons.tsx';
import { href } from './place.ts';
import { Card, IconButton, useLoad } from './ui.tsx';

const WATCH_MS = 10_000;
const HIDDEN = 'first-steps-hidden';

/** What a new project has to do until its first delivery, with what is done; nothing once all is, or when it was closed. */
export function FirstSteps({ project }: { project: Project }) {
  const [isHidden, setHidden] = useState(() => localStorage.getItem(HIDDEN) !== null);
  const keys = useLoad(() => get<{ keys: readonly Key[] }>(`/projects/${project.id}/keys`), [project.id], WATCH_MS);
  const hooks = useLoad(() => hookCall<readonly HookHealth[]>(project.id, 'GET', '/health'), [project.id], WATCH_MS);
  if (isHidden || keys.data === null || hooks.data === null) return null;
  const active = keys.data.keys.filter(({ state }) => state === 'active');
  const page = (name: string) => href(['p', project.id, name]);
  const steps = [
    { text: 'Create an API key', isDone: active.length > 0, to: page('keys') },
    {
      text: 'Make a call with it',
      isDone: active.some(({ usedAt }) => usedAt !== null),
      to: '/docs/guide',
      isOutside: true,
    },
    { text: 'Create a webhook', isDone: hooks.data.length > 0, to: page('webhooks') },
    {
      text: 'Get the first delivery',
      isDone: hooks.data.some(({ lastDeliveredAt }) => lastDeliveredAt !== null),
      to: page('webhooks'),
    },
  ];
  if (steps.every(({ isDone }) => isDone)) return null;
  const hide = () => {
    localStorage.setItem(HIDDEN, 'yes');
    setHidden(true);
  };
  return (
    <Card
      title="First steps"
      note={`of ${project.name}: ${steps.filter(({ isDone }) => isDone).length} of ${steps.length} done`}
      actions={<IconButton label="Hide the first steps" icon={X} onClick={hide} />}
    >
      <ol class="steps">
        {steps.map(({ text, isDone, to, isOutside }) => (
          <li key={text} class={isDone ? 'done' : undefined}>
            {isDone ? <CircleCheck size={18} aria-hidden /> : <span class="todo" aria-hidden="true" />}
            {isDone ? (
              <span>
                {text} <span class="hidden">(done)</span>
              </span>
            ) : (
              <a href={to} {...(isOutside === true ? { target: '_blank', rel: 'noreferrer' } : {})}>
                {text}
              </a>
            )}
          </li>
        ))}
      </ol>
    </Card>
  );
}
