import type { HookHealth, ShownWebhook } from './api.ts';
import { count, number } from './format.ts';
import { Badge, Time } from './ui.tsx';

const OFF: Readonly<Record<string, string>> = { failure_rate: 'off: too many failures', gone: 'off: receiver is gone' };

/** Whether a webhook is on, and how its deliveries go. Without `health` only the first is known. */
export function HookState({ hook, health }: { hook: ShownWebhook; health?: HookHealth | undefined }) {
  if (!hook.active) {
    const why = OFF[hook.disabledReason ?? ''];
    return (
      <span class="one-line">
        <Badge tone={why === undefined ? 'plain' : 'bad'}>{why ?? 'off'}</Badge>
      </span>
    );
  }
  if (health?.state === 'failing') return <Badge tone="bad">failing</Badge>;
  if (health?.state === 'working') return <Badge tone="good">working</Badge>;
  // Nothing was attempted for a day.
  return <Badge tone="info">on</Badge>;
}

/** `97.5 %` of the attempts of the last 24 hours. */
export function rateText({ successRate }: HookHealth): string {
  if (successRate === null) return '–';
  const percent = 100 * successRate;
  // 99.96 % is not all.
  return `${percent === 100 || percent === 0 ? percent : Math.min(99.9, Math.max(0.1, percent)).toFixed(1)} %`;
}

const LOW_RATE = 0.95;
export const isLow = ({ successRate }: HookHealth): boolean => successRate !== null && successRate < LOW_RATE;

/** One bar for each of the last 28 days: its height says how many attempts, its lower part how many of them failed. */
export function HealthBars({ health, wide = false }: { health: HookHealth; wide?: boolean }) {
  const { days } = health;
  const most = Math.max(1, ...days.map(({ succeeded, failed }) => succeeded + failed));
  const [all, bad] = days.reduce(([a, b], { succeeded, failed }) => [a + succeeded + failed, b + failed], [0, 0]);
  const label = `${count(all, 'attempt')} in 28 days, ${number(bad)} failed`;
  return (
    <span class={wide ? 'bars wide' : 'bars'} role="img" aria-label={label} title={label}>
      {days.map(({ day, succeeded, failed }) => {
        const sum = succeeded + failed;
        return (
          <span
            key={day}
            class={sum === 0 ? 'bar none' : 'bar'}
            title={sum === 0 ? `${day}: nothing` : `${day}: ${number(succeeded)} succeeded, ${number(failed)} failed`}
          >
            {succeeded > 0 && <span class="ok" style={{ height: `${(100 * succeeded) / most}%` }} />}
            {failed > 0 && <span class="failed" style={{ height: `max(2px, ${(100 * failed) / most}%)` }} />}
          </span>
        );
      })}
    </span>
  );
}

/** `3`, and when the next one is tried. */
export function Waiting({ health }: { health: HookHealth }) {
  const { waiting, held, nextAttemptAt } = health;
  if (waiting + held === 0) return <>–</>;
  return (
    <span>
      {number(waiting + held)}{' '}
      {nextAttemptAt !== null && (
        <span class="soft small one-line">
          next <Time at={nextAttemptAt} isPlanned />
        </span>
      )}
    </span>
  );
}
