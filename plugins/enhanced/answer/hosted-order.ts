/** Members of all objects of an element, in the order in which the hosted answers have them. One list does for all of them. */
const ORDER = `description type source account amount fee feePayer signature slot timestamp
fromTokenAccount toTokenAccount fromUserAccount toUserAccount tokenAmount mint tokenStandard
tokenTransfers nativeTransfers nativeBalanceChange tokenBalanceChanges accountData transactionError
accounts data programId innerInstructions instructions events`;

const NESTED: Readonly<Record<string, string>> = {
  nativeTransfers: 'fromUserAccount toUserAccount amount',
  nativeFees: 'account fromUserAccount toUserAccount amount',
  tokenBalanceChanges: 'userAccount tokenAccount rawTokenAmount mint',
  tokenInputs:
    'userAccount tokenAccount rawTokenAmount fromTokenAccount toTokenAccount fromUserAccount toUserAccount tokenAmount mint tokenStandard',
  tokenOutputs:
    'userAccount tokenAccount rawTokenAmount fromTokenAccount toTokenAccount fromUserAccount toUserAccount tokenAmount mint tokenStandard',
  tokenFees:
    'userAccount tokenAccount rawTokenAmount fromTokenAccount toTokenAccount fromUserAccount toUserAccount tokenAmount mint tokenStandard',
  rawTokenAmount: 'tokenAmount decimals',
  nft: 'description type source amount fee feePayer signature slot timestamp saleType buyer seller staker nfts',
  swap: 'nativeInput nativeOutput tokenInputs tokenOutputs nativeFees tokenFees innerSwaps',
  innerSwaps: 'tokenInputs tokenOutputs tokenFees nativeFees programInfo',
  programInfo: 'source account programName instructionName',
  compressed:
    'type treeId leafIndex seq assetId instructionIndex innerInstructionIndex newLeafOwner oldLeafOwner newLeafDelegate oldLeafDelegate treeDelegate metadata updateArgs',
  metadata:
    'name symbol uri sellerFeeBasisPoints primarySaleHappened isMutable editionNonce tokenStandard collection uses tokenProgramVersion creators',
  creators: 'address verified share',
};

/** The same element with its members in the order of hosted answers; members that those do not have come last. */
export function inHostedOrder(value: unknown): unknown {
  return ordered(value, ORDER);
}

function ordered(value: unknown, order: string): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map((item) => ordered(item, order));
  const names = order.split(/\s+/);
  const rank = (name: string): number => {
    const at = names.indexOf(name);
    return at < 0 ? names.length : at;
  };
  const members = Object.entries(value).sort(([left], [right]) => rank(left) - rank(right));
  return Object.fromEntries(members.map(([name, member]) => [name, ordered(member, NESTED[name] ?? ORDER)]));
}
