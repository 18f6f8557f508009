import { RequestError } from '../../../src/kernel/request.ts';
import { newSecret } from '../delivery/signature.ts';
import { insertSecret, retireSecrets } from '../store/secrets.ts';
import { type ManageContext, writeHook } from './context.ts';

const MAX_OLD_SECRETS = 5;

export interface Rotation {
  readonly signingSecret: string;
  /** Unix milliseconds. */
  readonly previousExpiresAt: number;
}

/** Gives a webhook a new signing secret; the old ones sign beside it until they expire. Errors: 400, 404. */
export function rotateSecret(
  context: ManageContext,
  projectId: string,
  id: string,
  overlapSeconds: number,
): Promise<Rotation> {
  const signingSecret = newSecret(context.random);
  return writeHook(context, projectId, id, async ({ db, hook, now, record }) => {
    const previousExpiresAt = now + overlapSeconds * 1_000;
    const old = await retireSecrets(db, hook.number, now, previousExpiresAt);
    if (old > MAX_OLD_SECRETS) throw new RequestError(400, 'too many active secrets');
    await insertSecret(db, hook.number, signingSecret, now);
    await record();
    return { signingSecret, previousExpiresAt };
  });
}
