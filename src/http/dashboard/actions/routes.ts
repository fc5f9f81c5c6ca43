import type { FastifyInstance } from 'fastify'
import { registerAction, type ActionDeps } from './action.ts'
import { registerAudit } from './audit-page.ts'
import { createEraseAction } from './erase.ts'
import { createPauseAction, createResumeAction } from './pause.ts'
import { createRetryAction } from './retry.ts'
import {
  createCancelAction,
  createUndoAction,
  createWithdrawAction,
  registerRequestPage,
} from './run-actions.ts'
import { createStartAction, registerRunForm } from './start-run.ts'

/**
 * Registers everything that an operator can change on the dashboard. Each action has one address: GET confirms it, POST
 * does it. Access control, the origin and the form's secret are checked before.
 */
export function registerActions(server: FastifyInstance, deps: ActionDeps): void {
  registerRunForm(server, deps)
  registerRequestPage(server, deps)
  registerAudit(server, deps)
  for (const create of [
    createStartAction,
    createCancelAction,
    createUndoAction,
    createWithdrawAction,
    createRetryAction,
    createPauseAction,
    createResumeAction,
    createEraseAction,
  ])
    registerAction(server, deps, create(deps))
}
