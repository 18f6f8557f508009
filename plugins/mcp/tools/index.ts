import type { Tool } from '../tool.ts';
import { accountTool } from './account.ts';
import { assetTool } from './asset.ts';
import { chainTool } from './chain.ts';
import { changeWebhookTool } from './change-webhook.ts';
import { docsTool } from './docs.ts';
import { historyTool } from './history.ts';
import { programTool } from './program.ts';
import { tokenTool } from './token.ts';
import { transactionTool } from './transaction.ts';
import { usageTool } from './usage.ts';
import { walletTool } from './wallet.ts';
import { webhooksTool } from './webhooks.ts';

/** All tools, in the order of the list. */
export const TOOLS: readonly Tool[] = [
  walletTool,
  transactionTool,
  historyTool,
  tokenTool,
  assetTool,
  accountTool,
  programTool,
  webhooksTool,
  changeWebhookTool,
  chainTool,
  usageTool,
  docsTool,
];
