import { REASONS } from '../delivery/reasons.ts';
import { readAddresses } from '../store/addresses.ts';
import { deleteHook } from '../store/hooks.ts';
import { type ManageContext, writeHook } from './context.ts';

/** Deletes a webhook with its addresses and secrets; what still waits for delivery is dropped. Errors: 404. */
export function removeHook(context: ManageContext, projectId: string, id: string): Promise<void> {
  return writeHook(context, projectId, id, async ({ tx, db, hook, record }) => {
    const addresses = await readAddresses(db, hook.number);
    await context.waiting.drop(tx, hook.id, REASONS.deleted);
    await deleteHook(db, hook.number);
    await record(addresses, []);
  });
}
