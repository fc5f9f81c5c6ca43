import { listExecutors, readTriggerState } from '../../sources/triggers/install.ts'
import type { Source } from '../../sources/source.ts'
import type { Database } from '../../store/open.ts'
import { finding, wrongBecause, type Finding } from './finding.ts'

/** Whether the triggers of a followed source are there and right. Without them there may still be a poll. */
export async function checkFollow(db: Database, source: Source): Promise<Finding> {
  const name = `follow ${source.name}`
  const there = await readTriggerState(db, source)
  if (there.state === 'right') return finding(name, 'ok', 'its triggers are there and right')
  const why = there.state === 'missing' ? 'its triggers are not there' : there.why
  const todo = `Run \`fillrate follow install ${source.name}\`.`
  const isPolled = source.mapping.changedAt !== null
  return finding(name, isPolled ? 'warning' : 'error', isPolled ? `${why}: it is polled by changedAt` : why, {
    todo,
  })
}

/** Functions of triggers that a role may use to gain the rights of their owner, of whatever source. Null: there are none. */
export async function checkFunctions(db: Database): Promise<Finding | null> {
  const open = await listExecutors(db)
  if (open.length === 0) return null
  return wrongBecause(
    'functions',
    open.map(({ name, role }) => ({
      place: name,
      found: `${role} may execute it`,
      expected:
        'that its owner alone may: it runs with the rights of its owner, and a role could have it run code of its own',
      todo: `revoke all on function ${name} from ${role}; \`fillrate follow install\` does it for its source`,
    })),
  )
}
